"""The messages of BrokerHeartbeat (API key 63), versions 0-2, all flexible.

- Version 1 adds `offline_log_dirs` to the request.
- Version 2 adds `cordoned_log_dirs` to the request.
"""

from typing import Annotated

from wire.declare import UUID, Bool, Int16, Int32, Int64, Request, Response, V


class BrokerHeartbeatRequest(Request["BrokerHeartbeatResponse"]):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0
    want_fence: Bool = False
    want_shut_down: Bool = False
    offline_log_dirs: Annotated[list[UUID], V("1+", tag=0)] = []
    cordoned_log_dirs: Annotated[list[UUID] | None, V("2+", nullable="2+", tag=1)] = None


class BrokerHeartbeatResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    is_caught_up: Bool = False
    is_fenced: Bool = True
    should_shut_down: Bool = False
