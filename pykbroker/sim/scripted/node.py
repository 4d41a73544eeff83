"""A node of a scripted cluster: its listener, its connections, and its answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from pykbroker.core.fetch.session_cache import FetchSessionCache
from pykbroker.sim.scripted.connection import ScriptedConnection
from pykbroker.sim.scripted.fetch import answer_fetch
from pykbroker.sim.scripted.offsets import answer_list_offsets, answer_offset_for_leader_epoch
from pykbroker.sim.scripted.state import ScriptedState
from pykbroker.world.net import Bound, Net, Peer, Pump, SocketOptions
from wire.api import ApiKey
from wire.apis import APIS
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.header import RequestHeader
from wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.metadata import MetadataRequest
from wire.versions import Versions

NodeAnswer = Callable[["ScriptedNode", RequestHeader, Any], Awaitable[Response | None]]
Script = Callable[["ScriptedNode", RequestHeader, Any], Awaitable[Response | None]]
"""A function that may answer a request. If it returns None, the node answers as usual.

It may raise Dropped or NoAnswer.
"""


FETCH_SESSIONS_MAX = 1000


class ScriptedNode:
    """A node of a cluster. `versions` has the versions of each API that the node supports.

    `requests` has the headers and bodies of all requests that the node has received.
    """

    def __init__(
        self, node_id: int, net: Net, state: ScriptedState, answers: Mapping[ApiKey, NodeAnswer], nursery: trio.Nursery
    ) -> None:
        self.node_id, self.state, self._net, self._nursery = node_id, state, net, nursery
        self._answers: dict[ApiKey, NodeAnswer] = {
            ApiKey.API_VERSIONS: answer_api_versions,
            ApiKey.METADATA: answer_metadata,
            ApiKey.FIND_COORDINATOR: answer_find_coordinator,
            ApiKey.FETCH: answer_fetch,
            ApiKey.LIST_OFFSETS: answer_list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: answer_offset_for_leader_epoch,
            **answers,
        }
        self.versions: dict[ApiKey, Versions] = {key: APIS[key].accepted for key in self._answers}
        self.stale: ScriptedState | None = None
        """The older state from which the node answers Metadata, or None."""
        self.sessions = FetchSessionCache(FETCH_SESSIONS_MAX, state.rng)
        self.scripts: list[Script] = []
        self.requests: list[tuple[RequestHeader, Request[Any]]] = []
        self._connections: list[ScriptedConnection] = []
        self._bound: Bound | None = None

    @property
    def is_up(self) -> bool:
        """Whether the node accepts connections."""
        return self._bound is not None

    @property
    def connection_count(self) -> int:
        """Return the number of open connections."""
        return sum(not connection.is_closed for connection in self._connections)

    def start(self) -> None:
        """Listen on the node's address."""
        self._bound = self._net.bind(*self.state.addresses[self.node_id], SocketOptions())
        self._bound.listen(self)

    def stop(self) -> None:
        """Stop listening, and close all connections."""
        if self._bound is not None:
            self._bound.close()
            self._bound = None
        self.sessions = FetchSessionCache(FETCH_SESSIONS_MAX, self.state.rng)
        self.disconnect()

    def disconnect(self) -> None:
        """Close all connections. Clients may connect again."""
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.close()

    def requests_of(self, key: ApiKey) -> list[Any]:
        """Return the bodies of all requests of an API."""
        return [request for header, request in self.requests if header.key == key]

    # ---- the acceptor of its listener

    def has_room(self) -> bool:
        """Whether the node accepts another connection, which it always does."""
        return True

    def paused(self) -> None:
        """Do nothing, since accepting never pauses."""

    def __call__(self, peer: Peer, pump: Pump) -> ScriptedConnection:
        connection = ScriptedConnection(peer, pump)
        self._connections.append(connection)
        self._nursery.start_soon(connection.serve, self._answer)
        return connection

    async def _answer(self, header: RequestHeader, request: Request[Any]) -> Response | None:
        self.requests.append((header, request))
        for script in list(self.scripts):
            response = await script(self, header, request)
            if response is not None:
                return response
        return await self.handle(header, request)

    async def handle(self, header: RequestHeader, request: Request[Any]) -> Response | None:
        """Return the usual answer to a request."""
        return await self._answers[ApiKey(header.key)](self, header, request)


async def answer_api_versions(
    node: ScriptedNode, header: RequestHeader, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    """Return the versions and features that the node supports.

    As in Kafka, a request of a newer version gets UNSUPPORTED_VERSION in version 0.
    """
    keys = [ApiVersion(key, *versions) for key, versions in node.versions.items()]
    if header.version not in node.versions[ApiKey.API_VERSIONS]:
        return ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, keys)
    features = [FinalizedFeatureKey(name, level, level) for name, level in node.state.features.items()]
    return ApiVersionsResponse(0, keys, finalized_features_epoch=node.state.features_epoch, finalized_features=features)


async def answer_metadata(node: ScriptedNode, header: RequestHeader, request: MetadataRequest) -> Response:
    """Return the node's metadata, which may be stale."""
    return (node.stale or node.state).metadata(request)


async def answer_find_coordinator(
    node: ScriptedNode, header: RequestHeader, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Return the coordinators of all keys."""
    if request.coordinator_keys:
        found = [node.state.coordinator(request.key_type, key) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = node.state.coordinator(request.key_type, request.key_)
    return FindCoordinatorResponse(error_code=one.error_code, node_id=one.node_id, host=one.host, port=one.port)
