"""The messages of DescribeConfigs (API key 32), versions 1-4, flexible from version 4.

- Version 3 adds `include_documentation` to the request. It adds `config_type` and `documentation` to the response.
- Version 4 is flexible.
"""

from typing import Annotated

from wire.declare import Bool, Int8, Int16, Int32, Request, Response, Struct, V


class DescribeConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: Annotated[list[str] | None, V(nullable="0+")] = []


class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    resources: list[DescribeConfigsResource] = []
    include_synonyms: Annotated[Bool, V("1+")] = False
    include_documentation: Annotated[Bool, V("3+")] = False


class DescribeConfigsSynonym(Struct):
    name: Annotated[str, V("1+")] = ""
    value: Annotated[str | None, V("1+", nullable="0+", sensitive=True)] = ""
    source: Annotated[Int8, V("1+")] = 0


class DescribeConfigsResourceResult(Struct):
    name: str = ""
    value: Annotated[str | None, V(nullable="0+", sensitive=True)] = ""
    read_only: Bool = False
    config_source: Annotated[Int8, V("1+", ignorable=True)] = -1
    is_sensitive: Bool = False
    synonyms: Annotated[list[DescribeConfigsSynonym], V("1+", ignorable=True)] = []
    config_type: Annotated[Int8, V("3+", ignorable=True)] = 0
    documentation: Annotated[str | None, V("3+", nullable="0+", ignorable=True)] = ""


class DescribeConfigsResult(Struct):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = []


class DescribeConfigsResponse(Response):
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = []
