"""The messages of UpdateFeatures (API key 57), versions 0-2, all flexible.

- Version 1 adds `upgrade_type` and `validate_only` to the request and removes `allow_downgrade` from the request.
- Version 2 removes `results` from the response.
"""

from typing import Annotated

from wire.declare import Bool, Int8, Int16, Int32, Request, Response, Struct, V


class FeatureUpdateKey(Struct):
    feature: str = ""
    max_version_level: Int16 = 0
    allow_downgrade: Annotated[Bool, V("0")] = False
    upgrade_type: Annotated[Int8, V("1+")] = 1


class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey] = []
    validate_only: Annotated[Bool, V("1+")] = False


class UpdatableFeatureResult(Struct):
    feature: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class UpdateFeaturesResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    results: Annotated[list[UpdatableFeatureResult], V("0-1", ignorable=True)] = []
