"""SyncGroup (14), versions 0-5, flexible from 4.

v1   response + throttle_time_ms
v3   request + group_instance_id
v4   flexible
v5   request + protocol_type, protocol_name; response + protocol_type, protocol_name
"""

from typing import Annotated, ClassVar

from wire.api import ApiKey
from wire.declare import Int16, Int32, Request, Response, Struct, V


class SyncGroupRequestAssignment(Struct):
    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(Request["SyncGroupResponse"]):
    key: ClassVar = ApiKey.SYNC_GROUP
    versions: ClassVar = "0-5"
    flexible: ClassVar = "4+"

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = None
    protocol_type: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    assignments: list[SyncGroupRequestAssignment] = []


class SyncGroupResponse(Response):
    key: ClassVar = ApiKey.SYNC_GROUP
    versions: ClassVar = "0-5"
    flexible: ClassVar = "4+"

    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    assignment: bytes = b""
