"""The groups of a scripted cluster: this broker's handlers and state machine of groups, with coordinators that move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from pykbroker.core.coordinator.record import LogRecord
from pykbroker.core.errors import ApiError
from pykbroker.core.group.machine import GroupMachine
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.log.verification import Verification
from pykbroker.core.metadata.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from pykbroker.core.outcome import Entry
from pykbroker.core.security.authorizer import AllowAll
from pykbroker.core.security.session import Session
from pykbroker.core.steps import Steps, finish
from pykbroker.machines.call import Call, refused
from pykbroker.machines.log import BetweenRequests
from pykbroker.machines.shell import MachineShell, ShellRules
from pykbroker.server.failure import fitted
from pykbroker.server.handler import Handler, Later, RequestContext
from pykbroker.sim.scripted.state import ScriptedState
from pykbroker.world.turns import Turns
from wire.api import APIS, ApiKey
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.header import RequestHeader

GROUP = 0
"""The key type of groups in FindCoordinator."""
WALL_MS = 1_700_000_000_000
RULES = ShellRules(
    ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, False
)
SESSION = Session("127.0.0.1", 1, "127.0.0.1", 2, "PLAINTEXT", 0)


def wall_ms() -> int:
    """Return milliseconds since 1970, which pass as trio's clock does."""
    return WALL_MS + int(trio.current_time() * 1000)


class MemoryLog:
    """A coordinator's log in memory, whose records are committed at once. It matches `machines.log.MachineLog`."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []

    def require_open(self) -> None:
        """Do nothing, since the log is always open."""

    def frame(
        self, records: Sequence[LogRecord], wall_ms: int, *, split: bool
    ) -> Steps[Sequence[tuple[Any, Sequence[LogRecord]]]]:
        """Return all records as one batch."""
        yield
        return [(records, records)]

    def append(self, batch: Any, wall_ms: int, verification: Verification | None, *, is_first: bool) -> int:
        """Append a batch."""
        self.records += batch
        return len(self.records)

    def entries(self, records: Sequence[LogRecord], end_offset: int) -> Iterable[Entry[Any]]:
        """Return the records with their offsets."""
        return [Entry(offset, record) for offset, record in enumerate(records, end_offset - len(records))]

    def is_committed(self, offset: int) -> bool:
        """Return True."""
        return True

    async def commit(self, offset: int, replayed: int, between: BetweenRequests[Any]) -> int:
        """Return the end of the log."""
        return replayed


class NodeGroups:
    """The groups that one node coordinates. It has the methods of `coordinator.Runtime` that handlers call."""

    def __init__(self, groups: ScriptedGroups, node_id: int) -> None:
        self._groups, self._node_id = groups, node_id

    def ask(self, name: str, request: Any) -> Call:
        """Pass a request to the state machine. The call is refused if another node coordinates the group."""
        if self._groups.state.coordinator(GROUP, name).node_id != self._node_id:
            return refused(ApiError(ErrorCode.NOT_COORDINATOR))
        return self._groups.ask(request)

    def ask_all(self, request: Any) -> Iterator[Call]:
        """Pass a request to the state machine."""
        yield self._groups.ask(request)


class ScriptedGroups:
    """All groups of a cluster. `move` gives a group another coordinator, which loads the groups from their log."""

    def __init__(self, state: ScriptedState, rng: Random, nursery: trio.Nursery) -> None:
        self.state, self._rng, self._nursery = state, rng, nursery
        self.settings = GroupSettings(group_initial_rebalance_delay_ms=0)
        self._log = MemoryLog()
        self._shell = MachineShell[LogRecord](self._log, RULES, wall_ms, Turns(lambda: 0), trio.Lock())
        self._handlers: dict[int, dict[ApiKey, Handler]] = {}

    def answers(self) -> Mapping[ApiKey, Callable[..., Any]]:
        """Return the answer of a node to each API of groups."""
        return dict.fromkeys(handlers(cast("Runtime", None), MetadataImage), self._answer)

    def move(self, group_id: str, node_id: int) -> None:
        """Give a group another coordinator. All members of all groups start new sessions, as after a load."""
        self.state.coordinators[GROUP, group_id] = node_id
        if self._shell.has_machine:
            self._shell.discard()

    def ask(self, request: Any) -> Call:
        """Pass a request to the state machine, which is loaded from the log if necessary."""
        if not self._shell.has_machine:
            machine = GroupMachine(self.settings, self._rng, lambda: self._image().topics)
            for entry in self._log.entries(self._log.records, len(self._log.records)):
                machine.replay(entry)
            self._shell.begin(machine, len(self._log.records))
            self._nursery.start_soon(self._shell.run)
        return self._shell.ask(request)

    def _image(self) -> MetadataImage:
        topics = [
            TopicImage(
                topic.name,
                topic.topic_id,
                {
                    each.index: PartitionImage(
                        tuple(each.replicas), tuple(each.isr), each.leader, each.leader_epoch, each.leader_epoch
                    )
                    for each in topic.partitions
                },
            )
            for topic in self.state.topics.values()
        ]
        return MetadataImage(
            topics=TopicsImage({topic.name: topic for topic in topics}, {topic.id: topic for topic in topics})
        )

    async def _answer(self, node: Any, header: RequestHeader, request: Request[Any]) -> Response:
        if node.node_id not in self._handlers:
            runtime = cast("Runtime", NodeGroups(self, node.node_id))
            self._handlers[node.node_id] = handlers(runtime, self._image)
        handler = self._handlers[node.node_id][ApiKey(header.key)]
        context = RequestContext(header.version, header.client_id, SESSION)
        try:
            answer = handler(context, request)
            while isinstance(answer, Later):
                answer = finish(answer.work) if isinstance(answer.work, Iterator) else await answer.work
        except ApiError as error:
            refusal = handler.refuse(request, error.code) or APIS[handler.key].response(error_code=error.code)
            return fitted(refusal, header.version)
        return answer


def handlers(groups: Runtime, image: Callable[[], MetadataImage]) -> dict[ApiKey, Handler]:
    """Return the handlers for groups by API."""
    allowed = AllowAll()
    found: list[Handler] = [
        JoinGroup(groups, allowed),
        SyncGroup(groups, allowed),
        Heartbeat(groups, allowed),
        LeaveGroup(groups, allowed),
        OffsetCommit(groups, image, allowed),
        OffsetFetch(groups, image, allowed),
        OffsetDelete(groups, image, allowed),
        ConsumerGroupHeartbeat(groups, allowed, lambda: True),
        ConsumerGroupDescribe(groups, allowed, lambda: True),
        ListGroups(groups, allowed),
        DescribeGroups(groups, allowed),
        DeleteGroups(groups, allowed),
    ]
    return {handler.key: handler for handler in found}
