"""The messages of AlterConfigs (API key 33), versions 0-2, flexible from version 2.

- Version 2 is flexible.
"""

from typing import Annotated

from wire.declare import Bool, Int8, Int16, Int32, Request, Response, Struct, V


class AlterableConfig(Struct):
    name: str = ""
    value: Annotated[str | None, V(nullable="0+", sensitive=True)] = ""


class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = []


class AlterConfigsRequest(Request["AlterConfigsResponse"]):
    resources: list[AlterConfigsResource] = []
    validate_only: Bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    resource_type: Int8 = 0
    resource_name: str = ""


class AlterConfigsResponse(Response):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = []
