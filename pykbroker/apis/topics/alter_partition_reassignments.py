"""AlterPartitionReassignments (45), v0-1: move partitions to other brokers, or cancel their moves (KIP-455).

v0 flexible   v1 may forbid a change of the replication factor (KIP-860)
Null replicas cancel a reassignment. With one broker, only an assignment to this broker succeeds.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Handler, Later, RequestContext
from wire.api import ApiKey
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


class AlterPartitionReassignments(Handler, msgspec.Struct, frozen=True):
    """A handler that passes the request to the controller."""

    key: ClassVar = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    versions: ClassVar[str] = "0-1"
    controller: ActiveController

    def __call__(self, context: RequestContext, request: AlterPartitionReassignmentsRequest) -> Later:
        # the next request sees the change
        return Later(self._answer(context, request), holds_connection=True, awaits_node=True)

    async def _answer(
        self, context: RequestContext, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        if not request.topics:
            return AlterPartitionReassignmentsResponse()
        return await self.controller.ask(request)
