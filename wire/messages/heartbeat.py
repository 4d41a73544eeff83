"""The messages of Heartbeat (API key 12), versions 0-4, flexible from version 4.

- Version 1 adds `throttle_time_ms` to the response.
- Version 3 adds `group_instance_id` to the request.
- Version 4 is flexible.
"""

from typing import Annotated

from wire.declare import Int16, Int32, Request, Response, V


class HeartbeatRequest(Request["HeartbeatResponse"]):
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = None


class HeartbeatResponse(Response):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
