"""The messages of SyncGroup (API key 14), versions 0-5, flexible from version 4.

- Version 1 adds `throttle_time_ms` to the response.
- Version 3 adds `group_instance_id` to the request.
- Version 4 is flexible.
- Version 5 adds `protocol_type` and `protocol_name` to the request. It adds `protocol_type` and `protocol_name` to the
  response.
"""

from typing import Annotated

from wire.declare import Int16, Int32, Request, Response, Struct, V


class SyncGroupRequestAssignment(Struct):
    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(Request["SyncGroupResponse"]):
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = None
    protocol_type: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    assignments: list[SyncGroupRequestAssignment] = []


class SyncGroupResponse(Response):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    assignment: bytes = b""
