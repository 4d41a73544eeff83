"""The messages of ListConfigResources (API key 74), versions 0-1, all flexible.

- Version 1 adds `resource_types` to the request. It adds `resource_type` to the response.
"""

from typing import Annotated

from wire.declare import Int8, Int16, Int32, Request, Response, Struct, V


class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"]):
    resource_types: Annotated[list[Int8], V("1+")] = []


class ConfigResource(Struct):
    resource_name: str = ""
    resource_type: Annotated[Int8, V("1+", ignorable=True)] = 16


class ListConfigResourcesResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = []
