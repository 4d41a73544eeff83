"""The messages of CreateAcls (API key 30), versions 1-3, flexible from version 2.

- Version 2 is flexible.
"""

from typing import Annotated

from wire.declare import Int8, Int16, Int32, Request, Response, Struct, V


class AclCreation(Struct):
    resource_type: Int8 = 0
    resource_name: str = ""
    resource_pattern_type: Annotated[Int8, V("1+")] = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(Request["CreateAclsResponse"]):
    creations: list[AclCreation] = []


class AclCreationResult(Struct):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class CreateAclsResponse(Response):
    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = []
