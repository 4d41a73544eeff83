"""The messages of DescribeAcls (API key 29), versions 1-3, flexible from version 2.

- Version 2 is flexible.
"""

from typing import Annotated

from wire.declare import Int8, Int16, Int32, Request, Response, Struct, V


class DescribeAclsRequest(Request["DescribeAclsResponse"]):
    resource_type_filter: Int8 = 0
    resource_name_filter: Annotated[str | None, V(nullable="0+")] = ""
    pattern_type_filter: Annotated[Int8, V("1+")] = 3
    principal_filter: Annotated[str | None, V(nullable="0+")] = ""
    host_filter: Annotated[str | None, V(nullable="0+")] = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class AclDescription(Struct):
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResource(Struct):
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Annotated[Int8, V("1+")] = 3
    acls: list[AclDescription] = []


class DescribeAclsResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    resources: list[DescribeAclsResource] = []
