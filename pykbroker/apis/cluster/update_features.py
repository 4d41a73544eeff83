"""UpdateFeatures (57), v0-2: raise or lower the cluster's finalized feature levels (KIP-584).

v1 upgrade types, validate only (KIP-778)   v2 no results for single features (KIP-1022)
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Handler, Later, RequestContext
from wire.api import ApiKey
from wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

RESULTS_VERSION_LAST = 1


class UpdateFeatures(Handler, msgspec.Struct, frozen=True):
    """A handler that passes the request to the controller. An error applies to the whole request."""

    key: ClassVar = ApiKey.UPDATE_FEATURES
    versions: ClassVar[str] = "0-2"
    controller: ActiveController

    def __call__(self, context: RequestContext, request: UpdateFeaturesRequest) -> Later:
        # the next request sees the change
        return Later(self._answer(context, request), holds_connection=True, awaits_node=True)

    async def _answer(self, context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        try:
            response = await self.controller.ask(request)
        except ApiError as error:
            return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
        if context.version > RESULTS_VERSION_LAST:
            response.results = []
        return response
