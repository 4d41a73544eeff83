"""The messages of JoinGroup (API key 11), versions 0-9, flexible from version 6.

- Version 1 adds `rebalance_timeout_ms` to the request.
- Version 2 adds `throttle_time_ms` to the response.
- Version 5 adds `group_instance_id` to the request. It adds `group_instance_id` to the response.
- Version 6 is flexible.
- Version 7 adds `protocol_type` to the response and lets `protocol_name` be null in the response.
- Version 8 adds `reason` to the request.
- Version 9 adds `skip_assignment` to the response.
"""

from typing import Annotated

from wire.declare import Bool, Int16, Int32, Request, Response, Struct, V


class JoinGroupRequestProtocol(Struct):
    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(Request["JoinGroupResponse"]):
    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, V("1+", ignorable=True)] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, V("5+", nullable="5+")] = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: Annotated[str | None, V("8+", nullable="8+", ignorable=True)] = None


class JoinGroupResponseMember(Struct):
    member_id: str = ""
    group_instance_id: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    metadata: bytes = b""


class JoinGroupResponse(Response):
    throttle_time_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, V("7+", nullable="7+", ignorable=True)] = None
    protocol_name: Annotated[str | None, V(nullable="7+")] = ""
    leader: str = ""
    skip_assignment: Annotated[Bool, V("9+")] = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = []
