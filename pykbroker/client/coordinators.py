"""The look-up of the brokers that coordinate groups and transactions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

import trio

from pykbroker.client.backoff import Backoff
from pykbroker.client.cluster import ClusterBroker
from pykbroker.client.errors import AuthenticationError, Disconnected
from pykbroker.client.nodes import Nodes, coordinator_connection_id
from pykbroker.core.errors import ApiError
from wire.api import ApiKey
from wire.error_codes import error_code
from wire.messages.find_coordinator import Coordinator, CoordinatorType, FindCoordinatorRequest, FindCoordinatorResponse

BATCH_VERSION_MIN = 4
"""The first version of FindCoordinator that has several keys in one request (KIP-699)."""


class Coordinators:
    """The coordinators that a client knows, by type and key. A key is a group id or a transactional id.

    A coordinator is forgotten when its connection ends, or when the caller calls `forget` after NOT_COORDINATOR or
    COORDINATOR_NOT_AVAILABLE. If `separate_connections` is true, a coordinator has its own connection, as in Kafka's
    consumer; the returned node ids are then those of `coordinator_connection_id`.
    """

    def __init__(
        self,
        nodes: Nodes,
        uniform: Callable[[float, float], float],
        retry_backoff_ms: float = 100,
        retry_backoff_ms_max: float = 1000,
        *,
        separate_connections: bool = False,
    ) -> None:
        self._nodes, self._separate_connections = nodes, separate_connections
        self._uniform, self._backoff_ms, self._backoff_ms_max = uniform, retry_backoff_ms, retry_backoff_ms_max
        self._known: dict[tuple[CoordinatorType, str], int] = {}
        self._locks: dict[CoordinatorType, trio.Lock] = defaultdict(trio.Lock)
        nodes.call_when_lost(self._node_lost)

    def known(self, kind: CoordinatorType, key: str) -> int | None:
        """Return the node id of a coordinator, or None if it must be looked up."""
        return self._known.get((kind, key))

    def forget(self, kind: CoordinatorType, key: str) -> None:
        """Look a coordinator up again when it is needed next."""
        self._known.pop((kind, key), None)

    async def find(self, kind: CoordinatorType, key: str) -> int:
        """Return the node id of a coordinator, and look it up if it is unknown, as `find_all` does."""
        return (await self.find_all(kind, [key]))[key]

    async def find_all(self, kind: CoordinatorType, keys: Collection[str]) -> dict[str, int]:
        """Return the node ids of several coordinators by key. Unknown coordinators are looked up in one request.

        Repeat the look-up with a backoff while no broker answers or a coordinator is not available. The caller sets the
        deadline. Raise ApiError if the look-up is refused, for example with GROUP_AUTHORIZATION_FAILED, and
        AuthenticationError.
        """
        backoff = Backoff(self._uniform, self._backoff_ms, self._backoff_ms_max)
        # A caller that waits here often finds that the look-up before its own has learnt what it needs.
        async with self._locks[kind]:
            while missing := [key for key in keys if (kind, key) not in self._known]:
                if await self._look_up(kind, missing) < len(missing):
                    await trio.sleep(backoff.failed())
            return {key: self._known[kind, key] for key in keys}

    async def _look_up(self, kind: CoordinatorType, keys: list[str]) -> int:
        """Look up coordinators once. Return the number of those found, which is 0 if no broker answers."""
        node_id = self._nodes.least_loaded()
        if node_id is None:
            self._nodes.check_refusal()
            return 0
        try:
            version = (await self._nodes.connection(node_id)).newest_version(ApiKey.FIND_COORDINATOR)
            found: list[Coordinator] = []
            for request in requests(kind, keys, version):
                response = await self._nodes.ask(node_id, request, version)
                found += coordinators_of(response, request)
        except AuthenticationError:
            raise
        except (OSError, Disconnected):
            return 0
        return sum(self._learn(kind, each) for each in found)

    def _learn(self, kind: CoordinatorType, found: Coordinator) -> bool:
        """Record a coordinator. Return False if none is available yet, and raise ApiError for any other error."""
        if found.error_code:
            code = error_code(found.error_code)
            if code.retriable:
                return False
            raise ApiError(code, f"{kind.name.lower()} '{found.key}': {found.error_message or code.name}")
        separate = self._separate_connections
        node_id = coordinator_connection_id(found.node_id) if separate else found.node_id
        self._nodes.learn(ClusterBroker(node_id, found.host, found.port))
        self._known[kind, found.key] = node_id
        return True

    def _node_lost(self, node_id: int) -> None:
        for each in [each for each, coordinator in self._known.items() if coordinator == node_id]:
            del self._known[each]


def requests(kind: CoordinatorType, keys: list[str], version: int) -> Iterable[FindCoordinatorRequest]:
    """Return the requests that look up these keys: one for all, or in old versions one for each."""
    if version >= BATCH_VERSION_MIN:
        return [FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)]
    return [FindCoordinatorRequest(key_=key, key_type=kind) for key in keys]


def coordinators_of(response: FindCoordinatorResponse, request: FindCoordinatorRequest) -> list[Coordinator]:
    """Return the coordinators in a response of any version."""
    if request.coordinator_keys:
        return response.coordinators
    return [
        Coordinator(
            request.key_, response.node_id, response.host, response.port, response.error_code, response.error_message
        )
    ]
