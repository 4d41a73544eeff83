"""AlterPartition (56), v2-3: change the ISR of partitions that a broker leads (KIP-497).

v2 topic ids   v3 the epoch of each member's broker (KIP-903)
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Handler, Later, RequestContext
from wire.api import ApiKey
from wire.messages.alter_partition import AlterPartitionRequest


class AlterPartition(Handler, msgspec.Struct, frozen=True):
    """A handler that passes the request to the controller."""

    key: ClassVar = ApiKey.ALTER_PARTITION
    versions: ClassVar[str] = "2-3"
    controller: ActiveController

    def __call__(self, context: RequestContext, request: AlterPartitionRequest) -> Later:
        return Later(self.controller.ask(request), holds_connection=False)
