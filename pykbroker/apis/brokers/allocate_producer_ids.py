"""AllocateProducerIds (67), v0: allocate a block of producer ids to a broker (KIP-730).

No id is in two blocks.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Handler, Later, RequestContext
from wire.api import ApiKey
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest


class AllocateProducerIds(Handler, msgspec.Struct, frozen=True):
    """A handler that passes the request to the controller."""

    key: ClassVar = ApiKey.ALLOCATE_PRODUCER_IDS
    versions: ClassVar[str] = "0"
    controller: ActiveController

    def __call__(self, context: RequestContext, request: AllocateProducerIdsRequest) -> Later:
        return Later(self.controller.ask(request), holds_connection=False)
