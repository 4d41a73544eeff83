"""The messages of DescribeGroups (API key 15), versions 0-6, flexible from version 5.

- Version 1 adds `throttle_time_ms` to the response.
- Version 3 adds `include_authorized_operations` to the request. It adds `authorized_operations` to the response.
- Version 4 adds `group_instance_id` to the response.
- Version 5 is flexible.
- Version 6 adds `error_message` to the response.
"""

from typing import Annotated

from wire.declare import Bool, Int16, Int32, Request, Response, Struct, V


class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    groups: list[str] = []
    include_authorized_operations: Annotated[Bool, V("3+")] = False


class DescribedGroupMember(Struct):
    member_id: str = ""
    group_instance_id: Annotated[str | None, V("4+", nullable="4+", ignorable=True)] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V("6+", nullable="6+")] = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: Annotated[Int32, V("3+")] = -(2**31)


class DescribeGroupsResponse(Response):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    groups: list[DescribedGroup] = []
