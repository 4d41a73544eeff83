"""The groups of a scripted cluster: this broker's handlers and state machine of groups, with coordinators that move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, cast

import trio

from pykbroker.apis.groups.consumer_group_describe import ConsumerGroupDescribe
from pykbroker.apis.groups.consumer_group_heartbeat import ConsumerGroupHeartbeat
from pykbroker.apis.groups.delete_groups import DeleteGroups
from pykbroker.apis.groups.describe_groups import DescribeGroups
from pykbroker.apis.groups.heartbeat import Heartbeat
from pykbroker.apis.groups.join_group import JoinGroup
from pykbroker.apis.groups.leave_group import LeaveGroup
from pykbroker.apis.groups.list_groups import ListGroups
from pykbroker.apis.groups.offset_commit import OffsetCommit
from pykbroker.apis.groups.offset_delete import OffsetDelete
from pykbroker.apis.groups.offset_fetch import OffsetFetch
from pykbroker.apis.groups.sync_group import SyncGroup
from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.group.machine import GroupMachine
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.server.handler import Handler
from pykbroker.sim.scripted.hosted import HostedMachine, NodeRuntime, handled, image_of
from pykbroker.sim.scripted.state import ScriptedState
from wire.api import ApiKey
from wire.declare import Request, Response
from wire.header import RequestHeader
from wire.messages.find_coordinator import CoordinatorType


def do_nothing() -> None:
    """Do nothing once groups are loaded."""


class ScriptedGroups:
    """All groups of a cluster. `move` gives a group another coordinator, which loads the groups from their log."""

    def __init__(self, state: ScriptedState, rng: Random, nursery: trio.Nursery) -> None:
        self.state = state
        self.settings = GroupSettings(group_initial_rebalance_delay_ms=0)
        self.hosted = HostedMachine(
            lambda: GroupMachine(self.settings, rng, lambda: image_of(state).topics), nursery, do_nothing
        )
        self._handlers: dict[int, dict[ApiKey, Handler]] = {}

    def answers(self) -> Mapping[ApiKey, Callable[..., Any]]:
        """Return the answer of a node to each API of groups."""
        return dict.fromkeys(handlers(cast("Runtime", None), MetadataImage), self._answer)

    def move(self, group_id: str, node_id: int) -> None:
        """Give a group another coordinator. All members of all groups start new sessions, as after a load."""
        self.state.coordinators[CoordinatorType.GROUP, group_id] = node_id
        self.hosted.discard()

    async def _answer(self, node: Any, header: RequestHeader, request: Request[Any]) -> Response:
        if node.node_id not in self._handlers:
            runtime = cast("Runtime", NodeRuntime(self.hosted, self.state, CoordinatorType.GROUP, node.node_id))
            self._handlers[node.node_id] = handlers(runtime, lambda: image_of(self.state))
        return await handled(self._handlers[node.node_id][ApiKey(header.key)], header, request)


def handlers(groups: Runtime, image: Callable[[], MetadataImage]) -> dict[ApiKey, Handler]:
    """Return the handlers for groups by API."""
    found: list[Handler] = [
        JoinGroup(groups),
        SyncGroup(groups),
        Heartbeat(groups),
        LeaveGroup(groups),
        OffsetCommit(groups, image),
        OffsetFetch(groups, image, lambda: False),
        OffsetDelete(groups, image),
        ConsumerGroupHeartbeat(groups, lambda: True),
        ConsumerGroupDescribe(groups, lambda: True),
        ListGroups(groups),
        DescribeGroups(groups),
        DeleteGroups(groups),
    ]
    return {handler.key: handler for handler in found}
