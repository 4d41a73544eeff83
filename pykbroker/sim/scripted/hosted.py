"""A coordinator's state machine in a scripted cluster: it has its log in memory, and moves from node to node."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any

import trio

from pykbroker.coordinator.machine import CoordinatorMachine
from pykbroker.core.coordinator.record import LogRecord
from pykbroker.core.errors import ApiError
from pykbroker.core.log.verification import Verification
from pykbroker.core.metadata.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from pykbroker.core.outcome import Entry
from pykbroker.core.security.session import Session
from pykbroker.core.steps import Steps, finish
from pykbroker.machines.call import Call, refused
from pykbroker.machines.log import BetweenRequests
from pykbroker.machines.shell import MachineShell, ShellRules
from pykbroker.server.handler import Handler, Later, RequestContext
from pykbroker.sim.scripted.state import ScriptedState
from pykbroker.world.turns import Turns
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.header import RequestHeader
from wire.refusal import refusal

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
        self.records += batch
        return len(self.records)

    def entries(self, records: Sequence[LogRecord], end_offset: int) -> Iterable[Entry[Any]]:
        return [
            Entry(offset, record, record.producer_id, record.producer_epoch)
            for offset, record in enumerate(records, end_offset - len(records))
        ]

    def is_committed(self, offset: int) -> bool:
        return True

    async def commit(self, offset: int, replayed: int, between: BetweenRequests[Any]) -> int:
        return replayed


class HostedMachine:
    """A state machine that is loaded from its log when it is needed. `began` is called after each load."""

    def __init__(
        self, new_machine: Callable[[], CoordinatorMachine], nursery: trio.Nursery, began: Callable[[], None]
    ) -> None:
        self._new_machine, self._nursery, self._began = new_machine, nursery, began
        self._log = MemoryLog()
        self._shell = MachineShell[LogRecord](self._log, RULES, wall_ms, Turns(lambda: 0), trio.Lock())

    def ask(self, request: Any) -> Call:
        """Pass a request to the state machine."""
        if not self._shell.has_machine:
            machine = self._new_machine()
            for entry in self._log.entries(self._log.records, len(self._log.records)):
                machine.replay(entry)
            self._shell.begin(machine, len(self._log.records))
            self._nursery.start_soon(self._shell.run)
            self._began()
        return self._shell.ask(request)

    def discard(self) -> None:
        """Refuse all waiting callers with NOT_COORDINATOR. The next request loads the state machine again."""
        if self._shell.has_machine:
            self._shell.discard()


class NodeRuntime:
    """The coordinators of one node. It has the methods of `coordinator.Runtime` that handlers call."""

    def __init__(self, hosted: HostedMachine, state: ScriptedState, key_type: int, node_id: int) -> None:
        self._hosted, self._state, self._key_type, self._node_id = hosted, state, key_type, node_id

    def ask(self, name: str, request: Any, verification: Verification | None = None) -> Call:
        """Pass a request to the state machine. The call is refused if another node is the coordinator."""
        if self._state.coordinator(self._key_type, name).node_id != self._node_id:
            return refused(ApiError(ErrorCode.NOT_COORDINATOR))
        return self._hosted.ask(request)

    def answer(self, name: str, request: Any) -> Response | Coroutine[Any, Any, Response]:
        """Return the response of the state machine, or a coroutine that waits for it."""
        return self.ask(name, request).answer()

    def ask_all(self, request: Any) -> Iterator[Call]:
        """Pass a request to the state machine."""
        yield self._hosted.ask(request)


def image_of(state: ScriptedState) -> MetadataImage:
    """Return the topics as an image."""
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
        for topic in state.topics.values()
    ]
    by_name, by_id = {topic.name: topic for topic in topics}, {topic.id: topic for topic in topics}
    return MetadataImage(topics=TopicsImage(by_name, by_id))


async def handled(handler: Handler, header: RequestHeader, request: Request[Any]) -> Response:
    """Return the response of one of this broker's handlers."""
    try:
        answer = handler(RequestContext(header.version, header.client_id, SESSION), request)
        while isinstance(answer, Later):
            answer = finish(answer.work) if isinstance(answer.work, Iterator) else await answer.work
    except ApiError as error:
        refused_response: Response = refusal(request, header.version, error.code)
        return refused_response
    return answer
