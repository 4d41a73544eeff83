"""ApiVersions (18), v0-4: return the APIs and versions that this broker supports, and the cluster's features.

v0 error code and ranges   v1 throttle time   v3 flexible, client software, features (KIP-511, KIP-584)
v4 a feature's minimum version may be 0 (KIP-1022)
A finalized feature that this broker does not implement is listed neither as supported nor as finalized.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pykbroker.core.metadata.features import ADVERTISED, KRAFT_FEATURE, advertised
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.server.handler import ApiHandler, RequestContext
from wire.error_codes import ErrorCode
from wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
SOFTWARE_VERSION_FIRST = 3
FEATURE_FROM_ZERO_VERSION_FIRST = 4


def no_level() -> int:
    """Return the level 0 of kraft.version, which is not listed."""
    return 0


class ApiVersions(ApiHandler, frozen=True):
    """A handler that returns the ranges in `served`. An invalid client software name gets INVALID_REQUEST."""

    served: tuple[ApiVersion, ...]
    image: Callable[[], MetadataImage]
    kraft_version: Callable[[], int] = no_level

    def __call__(self, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        if context.version >= SOFTWARE_VERSION_FIRST and not (
            SOFTWARE.fullmatch(request.client_software_name) and SOFTWARE.fullmatch(request.client_software_version)
        ):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        image, kraft_version = self.image(), self.kraft_version()
        finalized = advertised(image.features.levels) | ({KRAFT_FEATURE: kraft_version} if kraft_version else {})
        return ApiVersionsResponse(
            api_keys=list(self.served),
            supported_features=[
                SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
                for name, (lowest, highest) in ADVERTISED.items()
                if lowest > 0 or context.version >= FEATURE_FROM_ZERO_VERSION_FIRST
            ],
            finalized_features_epoch=image.offset,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in finalized.items()
            ],
        )
