"""The messages of DeleteAcls (API key 31), versions 1-3, flexible from version 2.

- Version 2 is flexible.
"""

from typing import Annotated

from wire.declare import Int8, Int16, Int32, Request, Response, Struct, V


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8 = 0
    resource_name_filter: Annotated[str | None, V(nullable="0+")] = ""
    pattern_type_filter: Annotated[Int8, V("1+")] = 3
    principal_filter: Annotated[str | None, V(nullable="0+")] = ""
    host_filter: Annotated[str | None, V(nullable="0+")] = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsRequest(Request["DeleteAclsResponse"]):
    filters: list[DeleteAclsFilter] = []


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Annotated[Int8, V("1+")] = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsFilterResult(Struct):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    matching_acls: list[DeleteAclsMatchingAcl] = []


class DeleteAclsResponse(Response):
    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = []
