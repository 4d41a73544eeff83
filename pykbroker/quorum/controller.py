"""The shell of the controller machine: it takes requests, makes decisions durable, and delivers the responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import trio

from pykbroker.core.errors import ApiError, StopError
from pykbroker.core.metadata.record import Record
from pykbroker.core.now import Now
from pykbroker.quorum.driver import Driver
from pykbroker.quorum.images import Images
from pykbroker.quorum.snapshotter import Snapshotter
from pykbroker.quorum.statistics import ControllerStatistics
from pykbroker.world.turns import Turns
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from wire.messages.broker_registration import BrokerRegistrationRequest
from wire.messages.controller_registration import ControllerRegistrationRequest
from wire.messages.create_partitions import CreatePartitionsRequest
from wire.messages.create_topics import CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.messages.elect_leaders import ElectLeadersRequest

Rsp = TypeVar("Rsp", bound=Response)

COMMITTED = frozenset(
    {
        AllocateProducerIdsRequest,
        BrokerRegistrationRequest,
        BrokerHeartbeatRequest,
        ControllerRegistrationRequest,
        AssignReplicasToDirsRequest,
    }
)
"""Requests of brokers, which are answered once they are committed."""
TIMED = (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    AlterPartitionReassignmentsRequest,
)
"""Requests that fail with REQUEST_TIMED_OUT after their own timeout. The timeout of UpdateFeatures is ignored."""
TIMEOUT_MS = 30_000
"""The timeout of all other requests of clients."""


class JournalFailed(StopError):
    """The metadata log could not be written. Its contents are unknown, and the broker must stop."""

    def __init__(self, directory: str, failure: BaseException | None) -> None:
        super().__init__(
            f"the broker ends: {directory}, which holds the metadata log, failed: {failure}. Mend the disk"
            " and start the broker again."
        )


class _Caller:
    """A request that waits for its response, and its own token."""

    __slots__ = ("answered", "offset", "response")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.offset = -1
        self.response: Response | None = None


class Controller:
    """The active controller. It answers only while `run` runs; `snapshotter.run` must run beside it.

    Requests are decided, written and replayed one after the other, each in time slices. An image is taken only between
    two requests.
    """

    def __init__(
        self, driver: Driver, images: Images, wall_ms: Callable[[], int], snapshotter: Snapshotter, turns: Turns
    ) -> None:
        self._machine, self._driver, self._wall_ms = driver.machine, driver, wall_ms
        self.images, self.snapshotter = images, snapshotter
        self._turns, self._deciding = turns, trio.Lock()
        self._uncommitted: list[_Caller] = []
        self._work = trio.Event()
        self._failure: Exception | None = None

    @property
    def epoch(self) -> int:
        """Return the epoch in which this controller leads the quorum."""
        return self._driver.epoch

    def statistics(self) -> ControllerStatistics:
        """Return the current statistics."""
        image = self.images.current
        return ControllerStatistics(
            self.epoch,
            image.offset,
            len(image.cluster.brokers),
            len(image.topics),
            sum(len(topic.partitions) for topic in image.topics.by_name.values()),
            len(self._uncommitted),
        )

    async def ask(self, request: Request[Rsp], /) -> Rsp:
        """Return the response once the decision is committed and, for requests of clients, applied by this broker.

        REQUEST_TIMED_OUT: the change may still be made later, unless the request's timeout was not positive.
        NOT_CONTROLLER: the metadata log has failed.
        """
        if type(request) in COMMITTED:
            return (await self._committed(request))[0]
        timeout_ms = request.timeout_ms if isinstance(request, TIMED) else TIMEOUT_MS
        if timeout_ms > 0:
            with trio.move_on_after(timeout_ms / 1000):
                response, offset = await self._committed(request)
                await self.images.wait_for(offset)
                return response
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT)

    async def run(self) -> None:
        """Commit decisions until cancelled. JournalFailed: the log could not be written."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            if self._failure is not None:
                raise JournalFailed(self._driver.directory, self._failure) from self._failure
            await self._commit()

    async def close(self) -> None:
        """Close the log, once `run` has ended."""
        await self._driver.close(failed=self._failure is not None)

    async def _committed(self, request: Request[Rsp]) -> tuple[Rsp, int]:
        """Return the committed response, and the offset of the last record that it depends on."""
        caller = _Caller()
        async with self._deciding:
            if self._failure is not None:
                raise ApiError(ErrorCode.NOT_CONTROLLER)
            await self._decide(request, caller)
        await caller.answered.wait()
        if caller.response is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        return cast(Rsp, caller.response), caller.offset

    async def _decide(self, request: Request[Response], caller: _Caller) -> None:
        outcome = await self._turns.through(self._machine.handle(request, caller, self._now()))
        if outcome.records:
            await self._write(outcome.records)
        for token, response in outcome.replies:
            waiting = cast(_Caller, token)
            waiting.response, waiting.offset = response, self._machine.next_offset - 1
            self._uncommitted.append(waiting)
        self._work.set()

    def _now(self) -> Now:
        return Now(trio.current_time() * 1000, self._wall_ms())

    async def _write(self, records: tuple[Record, ...]) -> None:
        """Append the records and replay them to the end, even if the caller is cancelled."""
        now_ms = self._wall_ms()
        batches = await self._turns.through(self._driver.batches(records, now_ms))
        try:
            with trio.CancelScope(shield=True):
                await self._turns.through(self._driver.write(batches, records, now_ms))
        except ApiError:
            raise
        except OSError as error:
            self._fail(error)
            raise ApiError(ErrorCode.NOT_CONTROLLER, f"the metadata log cannot be written: {error}") from error
        except Exception as error:
            self._fail(error)
            raise

    async def _commit(self) -> None:
        """Commit all earlier decisions with one fsync."""
        async with self._deciding:
            if self._failure is not None:
                return  # what was half replayed is no image
            callers, self._uncommitted = self._uncommitted, []
            delta = self._driver.freeze()
        try:
            if delta.image.offset > self.images.committed.offset:
                await self._driver.commit()
                self.images.publish(delta)
                self.snapshotter.committed()
        except OSError as error:
            for caller in callers:
                caller.response = None
            self._fail(error)
        for caller in callers:
            caller.answered.set()

    def _fail(self, error: Exception) -> None:
        """Refuse further requests, and all callers that wait for a commit, with NOT_CONTROLLER."""
        self._failure = error
        for caller in self._uncommitted:
            caller.response = None
            caller.answered.set()
        self._work.set()
