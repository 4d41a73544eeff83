"""The messages of ApiVersions (API key 18), versions 0-4, flexible from version 3.

- Version 1 adds `throttle_time_ms` to the response.
- Version 3 is flexible and adds `client_software_name` and `client_software_version` to the request. It adds
  `supported_features`, `finalized_features_epoch`, `finalized_features`, and `zk_migration_ready` to the response.
"""

from typing import Annotated

from wire.declare import Bool, Int16, Int32, Int64, Request, Response, Struct, V


class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    client_software_name: Annotated[str, V("3+", ignorable=True)] = ""
    client_software_version: Annotated[str, V("3+", ignorable=True)] = ""


class ApiVersion(Struct):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Struct):
    name: Annotated[str, V("3+")] = ""
    min_version: Annotated[Int16, V("3+")] = 0
    max_version: Annotated[Int16, V("3+")] = 0


class FinalizedFeatureKey(Struct):
    name: Annotated[str, V("3+")] = ""
    max_version_level: Annotated[Int16, V("3+")] = 0
    min_version_level: Annotated[Int16, V("3+")] = 0


class ApiVersionsResponse(Response):
    error_code: Int16 = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], V("3+", tag=0, ignorable=True)] = []
    finalized_features_epoch: Annotated[Int64, V("3+", tag=1, ignorable=True)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], V("3+", tag=2, ignorable=True)] = []
    zk_migration_ready: Annotated[Bool, V("3+", tag=3, ignorable=True)] = False
