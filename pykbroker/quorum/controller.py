"""The active controller: it passes requests to a state machine and responds once changes are committed and applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar, cast

import trio

from pykbroker.core.errors import ApiError, StopError
from pykbroker.core.metadata.notices import BrokerGone
from pykbroker.core.metadata.record import Record
from pykbroker.core.now import Now
from pykbroker.machines.shell import MachineShell, ShellRules
from pykbroker.quorum.applied_offsets import AppliedOffsets
from pykbroker.quorum.controller_log import ControllerLog
from pykbroker.quorum.driver import Driver
from pykbroker.quorum.images import Images
from pykbroker.quorum.metadata_fetches import MetadataFetches
from pykbroker.quorum.snapshotter import Snapshotter
from pykbroker.quorum.statistics import ControllerDuty, ControllerStatistics
from pykbroker.world.turns import Turns
from wire.declare import NIL, Request, Response
from wire.error_codes import ErrorCode
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from wire.messages.alter_partition import AlterPartitionRequest
from wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from wire.messages.broker_registration import BrokerRegistrationRequest
from wire.messages.controller_registration import ControllerRegistrationRequest
from wire.messages.create_partitions import CreatePartitionsRequest
from wire.messages.create_topics import CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.messages.elect_leaders import ElectLeadersRequest
from wire.sentinels import NO_BROKER_EPOCH

Rsp = TypeVar("Rsp", bound=Response)

COMMITTED = frozenset(
    {
        AllocateProducerIdsRequest,
        AlterPartitionRequest,
        BrokerRegistrationRequest,
        BrokerHeartbeatRequest,
        ControllerRegistrationRequest,
        AssignReplicasToDirsRequest,
    }
)
"""Requests of brokers. The response is sent once the change is committed, without waiting until it is applied."""
TIMED = (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    AlterPartitionReassignmentsRequest,
)
"""Requests that fail with REQUEST_TIMED_OUT after their own timeout. Kafka ignores the timeout of UpdateFeatures."""
TIMEOUT_MS = 30_000
"""The timeout of all other requests of clients."""
RULES = ShellRules(
    discarded=ErrorCode.NOT_CONTROLLER,
    loading=ErrorCode.NOT_CONTROLLER,
    busy=ErrorCode.REQUEST_TIMED_OUT,
    survives_bugs=True,
    commits_alone=True,
)


class JournalFailed(StopError):
    """The error that stops the broker: the metadata log could not be written, and its contents are unknown."""

    def __init__(self, directory: str, failure: BaseException | None) -> None:
        super().__init__(
            f"the broker stops: {directory}, the directory of the metadata log, failed: {failure}. Repair the disk"
            " and start the broker again."
        )


class RecordedVoter(NamedTuple):
    """The only voter, this node, as the log records it: the level of `kraft.version`, and the id of its directory."""

    kraft_version: int = 0
    directory_id: bytes = NIL


NOT_RECORDED = RecordedVoter()
"""The voter of a log that does not record its voters."""


class Controller:
    """The active controller. It responds only while `run` runs, and `snapshotter.run` must run meanwhile.

    `fetches` serves the metadata log to brokers in other processes, and `applied` has what they have applied.
    """

    def __init__(
        self,
        driver: Driver,
        images: Images,
        wall_ms: Callable[[], int],
        snapshotter: Snapshotter,
        turns: Turns,
        fetches: MetadataFetches | None = None,
        voter: RecordedVoter = NOT_RECORDED,
    ) -> None:
        self._driver, self._wall_ms = driver, wall_ms
        self.images, self.snapshotter, self._fetches, self.voter = images, snapshotter, fetches, voter
        self.applies = False
        self.broker_epoch: Callable[[], int] = lambda: NO_BROKER_EPOCH
        self.applied = AppliedOffsets(self._other_brokers)
        log = ControllerLog(driver, images, snapshotter)
        self._shell: MachineShell[Record] = MachineShell(log, RULES, wall_ms, turns, trio.Lock())
        self._shell.begin(driver.machine, driver.machine.next_offset)

    @property
    def epoch(self) -> int:
        """Return the epoch in which this controller leads the quorum."""
        return self._driver.epoch

    @property
    def kraft_version(self) -> int:
        """Return the level of `kraft.version`."""
        return self.voter.kraft_version

    @property
    def fetches(self) -> MetadataFetches:
        """Return the server of the metadata log."""
        assert self._fetches is not None
        return self._fetches

    def _other_brokers(self) -> Iterator[int]:
        """Yield the unfenced brokers in other processes."""
        own = self._driver.node_id
        brokers = self.images.committed.cluster.brokers
        return (broker_id for broker_id, broker in brokers.items() if not broker.fenced and broker_id != own)

    def note_contact(self, broker_id: int, broker_epoch: int) -> None:
        """Extend the session of a broker whose heartbeat has arrived, before the heartbeat's turn comes."""
        now = Now(trio.current_time() * 1000, self._wall_ms())
        self._driver.machine.note_contact(broker_id, broker_epoch, now)

    def note_applied(self, broker_id: int, broker_epoch: int, offset: int) -> None:
        """Note that a broker has applied the metadata log up to the record at `offset`."""
        self.applied.note(broker_id, offset)
        self._driver.machine.note_applied(broker_id, broker_epoch, offset)

    def note_gone(self, gone: BrokerGone) -> None:
        """Note that the connection of a broker's heartbeats has ended."""
        self._shell.notify(gone)

    def was_silent(self, seconds: float) -> bool:
        """Return false: the metadata is in this process, and stops with it."""
        return False

    def statistics(self) -> ControllerStatistics:
        machine = self._driver.machine
        duty = ControllerDuty(machine.leaderless_count, machine.unbalanced_count, machine.unclean_election_count)
        return ControllerStatistics.of(self.epoch, self.images.current, self._shell.uncommitted, duty)

    async def ask(self, request: Request[Rsp], /) -> Rsp:
        """Return the response once the change is committed and, for requests of clients, applied by all brokers.

        Raise ApiError REQUEST_TIMED_OUT after the timeout; the change may still be made later, unless the timeout was
        not positive. Raise ApiError NOT_CONTROLLER if the metadata log has failed.
        """
        if type(request) in COMMITTED:
            return (await self._committed(request))[0]
        timeout_ms = request.timeout_ms if isinstance(request, TIMED) else TIMEOUT_MS
        if timeout_ms > 0:
            with trio.move_on_after(timeout_ms / 1000):
                response, end_offset = await self._committed(request)
                await self.images.wait_for(end_offset - 1)
                # A client that has created a topic may send its next request to any broker.
                await self.applied.wait(end_offset - 1)
                return response
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT)

    async def run(self) -> None:
        """Commit changes until cancelled. Raise JournalFailed if the log could not be written."""
        try:
            await self._shell.run()
        finally:
            failure = self._shell.failure
            self._shell.discard(failure)
        raise JournalFailed(self._driver.directory, failure) from failure

    async def close(self) -> None:
        """Close the log. `run` must have ended."""
        await self._driver.close(failed=self._shell.failure is not None)

    async def _committed(self, request: Request[Rsp]) -> tuple[Rsp, int]:
        """Return the committed response, and the end offset of the records that it depends on."""
        call = self._shell.ask(request)
        try:
            return cast(Rsp, await call.wait()), call.offset
        finally:
            self._shell.abandon(call)
