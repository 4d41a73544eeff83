"""JoinGroup (11), versions 0-9, flexible from 6.

v1   request + rebalance_timeout_ms
v2   response + throttle_time_ms
v5   request + group_instance_id; response + group_instance_id
v6   flexible
v7   response + protocol_type; protocol_name may be null
v8   request + reason
v9   response + skip_assignment
"""

from typing import Annotated, ClassVar

from wire.api import ApiKey
from wire.declare import Bool, Int16, Int32, Request, Response, Struct, V


class JoinGroupRequestProtocol(Struct):
    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(Request["JoinGroupResponse"]):
    key: ClassVar = ApiKey.JOIN_GROUP
    versions: ClassVar = "0-9"
    flexible: ClassVar = "6+"

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
    key: ClassVar = ApiKey.JOIN_GROUP
    versions: ClassVar = "0-9"
    flexible: ClassVar = "6+"

    throttle_time_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, V("7+", nullable="7+", ignorable=True)] = None
    protocol_name: Annotated[str | None, V(nullable="7+")] = ""
    leader: str = ""
    skip_assignment: Annotated[Bool, V("9+")] = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = []
