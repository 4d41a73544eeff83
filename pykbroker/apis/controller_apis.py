"""The APIs whose requests go to the controller as they are, one row for each.

The comment of a row begins as the docstring of an API's file does.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pykbroker.core.security.rights import RIGHTS
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Handler, Later, RequestContext
from wire.api import VERSIONS, ApiKey
from wire.apis import APIS
from wire.declare import Request, Response


class ControllerApi(msgspec.Struct, frozen=True):
    """An API whose requests are passed to the controller.

    A client's request blocks its connection, so that the next request sees the change; a request `of_brokers` does not.
    A request whose list in the field `asks` is empty gets an empty response.
    """

    of_brokers: bool = False
    asks: str | None = None


CONTROLLER_APIS: dict[ApiKey, ControllerApi] = {
    # ElectLeaders (43), v0-2: elect the preferred leaders of partitions, or any live replica (unclean).
    # v1 unclean elections (KIP-460), top-level error   v2 flexible
    # Null topics request all partitions; partitions that need no election are then left out of the response.
    ApiKey.ELECT_LEADERS: ControllerApi(asks="topic_partitions"),
    # AlterPartitionReassignments (45), v0-1: move partitions to other brokers, or cancel their moves (KIP-455).
    # v0 flexible   v1 may forbid a change of the replication factor (KIP-860)
    # Null replicas cancel a reassignment. With one broker, only an assignment to this broker succeeds.
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ControllerApi(asks="topics"),
    # AlterClientQuotas (49), v0-1: set and remove quotas of users, client ids and addresses (KIP-546, KIP-612).
    # v1 flexible
    # Quotas are stored and described, but this broker does not throttle clients.
    ApiKey.ALTER_CLIENT_QUOTAS: ControllerApi(),
    # AlterUserScramCredentials (51), v0: set and delete SCRAM credentials of users (KIP-554).
    # A change holds for the next log-in of a user. Open connections stay.
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ControllerApi(),
    # AlterPartition (56), v2-3: change the ISR of partitions that a broker leads (KIP-497).
    # v2 topic ids   v3 the epoch of each member's broker (KIP-903)
    ApiKey.ALTER_PARTITION: ControllerApi(of_brokers=True),
    # UpdateFeatures (57), v0-2: raise or lower the cluster's finalized feature levels (KIP-584).
    # v1 upgrade types, validate only (KIP-778)   v2 no results for single features (KIP-1022)
    # An error applies to the whole request.
    ApiKey.UPDATE_FEATURES: ControllerApi(),
    # UnregisterBroker (64), v0: remove a broker's registration (KIP-631). A removed broker leads no partition.
    ApiKey.UNREGISTER_BROKER: ControllerApi(),
    # AllocateProducerIds (67), v0: allocate a block of producer ids to a broker (KIP-730).
    # No id is in two blocks.
    ApiKey.ALLOCATE_PRODUCER_IDS: ControllerApi(of_brokers=True),
    # ControllerRegistration (70), v0: record the endpoints and features of a controller (KIP-919).
    # The cluster has one controller, which registers itself.
    ApiKey.CONTROLLER_REGISTRATION: ControllerApi(of_brokers=True),
    # AssignReplicasToDirs (73), v0: record in which log directory a broker has each replica (KIP-858).
    # A partition that the broker has no replica of gets an error code in its own result.
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: ControllerApi(of_brokers=True),
}
if without_rights := CONTROLLER_APIS.keys() - RIGHTS.keys():
    raise TypeError(f"core/security/rights.py has no entry for {without_rights}")


class ControllerHandler(Handler):
    """A handler that passes each request to the controller."""

    __slots__ = ("_controller", "_row", "key", "versions")

    def __init__(self, key: ApiKey, controller: ActiveController) -> None:
        self._row, self._controller = CONTROLLER_APIS[key], controller
        self.key, self.versions = key, VERSIONS[key][0]  # type: ignore[misc]

    def __call__(self, context: RequestContext, request: Request[Any]) -> Later:
        holds = not self._row.of_brokers
        return Later(self._answer(request), holds_connection=holds, awaits_node=holds)

    async def _answer(self, request: Request[Any]) -> Response:
        if self._row.asks is not None and getattr(request, self._row.asks) == []:
            return APIS[self.key].response()
        response: Response = await self._controller.ask(request)
        return response
