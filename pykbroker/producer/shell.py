"""The shell of a producer: the trio task that sends what the pure sender says, and passes the answers back to it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from math import inf
from typing import Any

import trio

from pykbroker.client.cluster import ClusterBroker, LeaderHint
from pykbroker.client.coordinators import Coordinators
from pykbroker.client.defect import ClientInterrupted, Defect
from pykbroker.client.errors import AuthenticationError, Disconnected, Silent, UnsupportedVersion
from pykbroker.client.metadata import ClusterMetadata
from pykbroker.client.nodes import Nodes
from pykbroker.client.pending_response import PendingResponse
from pykbroker.client.settings import metadata_settings, node_settings
from pykbroker.client.timer import wait_s
from pykbroker.core.errors import ApiError
from pykbroker.core.producer.accumulator import RecordAccumulator
from pykbroker.core.producer.batch import BatchOutcome, ProducerBatch
from pykbroker.core.producer.buffer_pool import BufferPool
from pykbroker.core.producer.errors import IllegalCall, ProducerClosed
from pykbroker.core.producer.intake import Intake
from pykbroker.core.producer.produce_call import ProduceCall
from pykbroker.core.producer.sender import Sender
from pykbroker.core.producer.sequences import Sequences
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer.delivery import wait_settled
from pykbroker.producer.identity import request_identity
from pykbroker.producer.settings import ProducerSettings
from pykbroker.producer.statistics import ProducerStatistics
from pykbroker.producer.topics import ProducerTopics
from pykbroker.producer.transactor import Transactor
from pykbroker.world.client_world import ClientWorld
from pykbroker.world.one_process import OneProcess
from wire.error_codes import ErrorCode
from wire.messages.produce import ProduceRequest, ProduceResponse

TOPIC_ID_VERSION = 13
"""The first version of Produce that names topics by their ids."""

log = logging.getLogger("pykbroker.producer")


class ProducerShell:
    """The parts of one producer, which its face shares.

    `pool`, `accumulator`, `sender`, `sequences` and `intake` are used under `lock`, all else in the trio thread. `hop`
    lets the trio thread call a function soon. Without it, the face lives in the trio thread.
    """

    def __init__(
        self,
        settings: ProducerSettings,
        world: ClientWorld,
        lock: AbstractContextManager[Any],
        hop: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self.settings, self.world, self.lock, self._hop = settings, world, lock, hop
        self.process = OneProcess(settings.client_id)
        self.pool = BufferPool(settings.buffer_memory)
        self.transactions: TransactionManager | None = None
        self.sequences = Sequences() if settings.is_idempotent else None
        if settings.transactional_id is not None:
            self.transactions = TransactionManager(
                settings.transactional_id, settings.transaction_timeout_ms, settings.retry_backoff_ms
            )
            self.sequences = self.transactions.sequences
        self.accumulator = RecordAccumulator(settings.batches(), self.pool, self.sequences)
        self.sender = Sender(self.accumulator, settings.sending(), world.rng.uniform, self.sequences)
        self.intake = Intake(
            self.accumulator,
            settings.max_request_size,
            world.rng.randrange,
            ignores_keys=settings.partitioner_ignore_keys,
            is_round_robin=settings.partitioner == "round_robin",
            is_adaptive=settings.partitioner_adaptive_partitioning_enable,
        )
        self.nodes = Nodes(world.net, world.rng.uniform, node_settings(settings, settings.in_flight_max))
        self.metadata = ClusterMetadata(
            self.nodes, world.rng.uniform, metadata_settings(settings, settings.metadata_max_idle_ms)
        )
        self.transactor: Transactor | None = None
        if self.transactions is not None:
            coordinators = Coordinators(
                self.nodes, world.rng.uniform, settings.retry_backoff_ms, settings.retry_backoff_max_ms
            )
            self.transactor = Transactor(
                self.transactions,
                self.nodes,
                self.metadata,
                coordinators,
                lock,
                (self.now_ms, settings.max_block_ms),
                self._has_incomplete,
                self.send_due,
            )
        self.topics = ProducerTopics(self.metadata, self.intake, settings, lock, self.send_due)
        self._is_sending = self._is_due = False
        self._defect = Defect(lambda: self._earlier.set())
        self._identity_wanted = trio.Event()
        self._check_at, self._earlier = inf, trio.Event()
        """The time of trio's clock at which a batch becomes due, and an event for an earlier time."""
        self._busy: frozenset[int] = frozenset()
        """The brokers that have as many requests in flight as they may have, while batches are due for them."""
        self.nodes.call_when_ready(lambda _: self.send_due())
        self.nodes.call_when_lost(lambda _: self.send_due())

    # ---- calls of the faces

    def wake(self) -> None:
        """Let the shell check what is due, from any thread. Call this when a batch was opened, or a flush begins.

        Raise RuntimeError in a forked process.
        """
        self.process.check()
        if self._busy and self._busy == self.topics.leading:
            return  # the next answer makes the shell check
        if self._hop is not None:
            self._hop(self.send_due)
        elif self.settings.linger_ms or len(self.accumulator.incomplete) <= 1:
            self.send_due()
        else:  # without linger, the records that are appended before the next pass of the loop share a batch
            self._check_at = -inf
            self._earlier.set()

    def flush(self) -> list[ProducerBatch]:
        """Send all batches at once, and return those whose outcome is still unknown."""
        with self.lock:
            batches = self.accumulator.flush()
        self.wake()
        return batches

    def statistics(self) -> ProducerStatistics:
        """Return a snapshot of the counters and of the memory. Raise RuntimeError in a forked process."""
        self.process.check()
        with self.lock:
            counters, pool = self.sender.counters, self.pool
            return ProducerStatistics(
                records_sent=counters.record_send,
                records_failed=counters.record_error,
                records_retried=counters.record_retry,
                batches_split=counters.batch_split,
                requests=counters.requests,
                bytes_sent=counters.bytes_sent,
                buffer_bytes=pool.bytes_max,
                buffer_available_bytes=pool.available_bytes,
                waiting=pool.waiting,
            )

    @property
    def transacting(self) -> Transactor:
        """Return the transactor. Raise IllegalCall without a transactional id."""
        if self.transactor is None:
            raise IllegalCall("this producer has no transactions: set transactional_id")
        return self.transactor

    async def finish(self) -> None:
        """Wait for the outcome of all records, and abort an open transaction or wait for the end of one that ends."""
        for batch in self.flush():
            await wait_settled(batch)
        if self.transactor is not None:
            await self.transactor.give_up()

    def begin_close(self) -> None:
        """Refuse further records, and send the rest at once."""
        with self.lock:
            self.accumulator.is_closing = True
            self.accumulator.guarded(self.pool.close)
        self.wake()

    def end_close(self) -> None:
        """Fail all records whose outcome is still unknown."""
        self.abandon(ProducerClosed("the producer was closed before the record was acknowledged"))
        self.nodes.close()

    def abandon(self, error: Exception) -> None:
        """Fail all records whose outcome is unknown, and end all waits for memory. This may be called in any thread.

        After a crash the sender may have lost batches, so it is not trusted to know all of them.
        """
        with self.lock:
            self.pool.close()
            try:
                self.sender.abort(error, unsent_only=False)
            except Exception:
                log.exception("the sender of a producer that has failed cannot give up its batches")
            self.accumulator.incomplete.settle_all(BatchOutcome(error=error))
        self._call_waiters()

    # ---- the task

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Send batches until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.world.net.run)
            await nursery.start(self.nodes.run)
            nursery.start_soon(self.metadata.run)
            if self.transactor is not None:
                nursery.start_soon(self.transactor.run)
            elif self.sequences is not None:
                nursery.start_soon(self._identify, self.sequences)
            await self._run_timer()

    async def _run_timer(self) -> None:
        """Send what is due because time has passed. After an interrupt, fail all records instead."""
        while True:
            try:
                self._defect.check()
            except ClientInterrupted as error:
                self.abandon(ProducerClosed(str(error)))
                return
            self._earlier = trio.Event()
            with trio.move_on_at(self._check_at):
                await self._earlier.wait()
                continue
            self._check_at = inf
            self.send_due()

    @trio.lowlevel.enable_ki_protection
    async def _identify(self, sequences: Sequences) -> None:
        """Request a producer id whenever batches wait for one."""
        while True:
            self._identity_wanted = trio.Event()
            await self._identity_wanted.wait()
            try:
                identity = await request_identity(self.nodes, self.settings, self.world.rng.uniform)
            except (ApiError, AuthenticationError) as error:
                log.error("all waiting records fail: %s", error)
                with self.lock:
                    self.sender.abort(error, unsent_only=False)
                self._call_waiters()
            else:
                with self.lock:
                    sequences.set_identity(identity)
            self.send_due()

    def send_due(self) -> None:
        """Send all requests that are due now. Call this after every event, in the thread of the trio loop."""
        self._is_due = True
        if self._is_sending:  # called by a request that failed at once
            return
        self._is_sending = True
        try:
            with self._defect:
                while self._is_due:
                    self._is_due = False
                    self._send_once()
        finally:
            self._is_sending = False

    def _send_once(self) -> None:
        now_ms = self.now_ms()
        with self.lock:
            if self.transactor is not None:
                self.transactor.follow(self.accumulator, self.sender)
            if self.sequences is not None:
                self.sequences.advance()
                if self.sequences.needs_identity and self.accumulator.has_undrained:
                    self._identity_wanted.set()
            sends = self.sender.sends(self.topics.leaders.get, self.topics.id_of, self.nodes.ready_or_connect, now_ms)
            self._busy = frozenset(sends.busy)  # under the lock, so that no thread takes an earlier value for this one
        self._call_waiters()
        for topic in sends.leaderless:
            self.metadata.use(topic)
            self.metadata.request_update_for(topic)
        for call in sends.calls:
            self._start(call)
        self._is_due = self._is_due or sends.has_more
        now = trio.current_time()
        delays = (now + self.nodes.node(node).delay_s(now) for node in sends.busy)
        if self.transactor is not None:
            self.transactor.wake()
        check_at = min([now + wait_s(sends.next_check_ms, now_ms), *delays])
        if check_at < self._check_at:
            self._check_at = check_at
            self._earlier.set()

    def _has_incomplete(self) -> bool:
        return len(self.accumulator.incomplete) > 0 or self.sender.has_in_flight

    def _call_waiters(self) -> None:
        """Call everybody who waits for a batch that is settled now, without the lock.

        A callback may end the program on trio only. In a background thread, it would end the producer in silence.
        """
        with self.lock:
            waiters = self.accumulator.incomplete.take_waiters()
        for waiter in waiters:
            try:
                waiter()
            except Exception:
                log.exception("a callback failed")
            except BaseException as error:
                if self._hop is not None:
                    log.exception("a callback failed: the thread of the producer cannot end the program")
                else:
                    self._defect.note(error)

    def now_ms(self) -> float:
        """Return the ms of a monotonic clock, in any thread."""
        return self.world.ticks_ns() / 1e6

    def _start(self, call: ProduceCall) -> None:
        """Send a Produce request."""
        for topic in call.topics:
            self.metadata.use(topic)
        # This encodes the batches, without the lock: other threads append records while it compresses.
        request = call.request(
            self.settings.acks_number,
            self.settings.request_timeout_ms,
            self.settings.transactional_id,
            self.accumulator.encode,
        )
        try:
            version = self._version(call)
            if self.settings.acks_number == 0:
                self.nodes.send_nowait(call.node, request, version)
                self._answered(call, None)
                return
            pending = self.nodes.ask_nowait(call.node, request, version)
        except (Disconnected, UnsupportedVersion) as error:
            self._failed(call, error)
            return
        pending.call_when_done(partial(self._arrived, call, pending))

    def _version(self, call: ProduceCall) -> int:
        newest = self.nodes.node(call.node).connection().newest_version(ProduceRequest.key)
        limits = [newest] if call.has_topic_ids else [newest, TOPIC_ID_VERSION - 1]
        if self.transactions is not None and self.transactions.produce_version_max is not None:
            limits.append(self.transactions.produce_version_max)
        return min(limits)

    def _arrived(self, call: ProduceCall, pending: PendingResponse[ProduceResponse]) -> None:
        with self._defect:
            try:
                response = pending.result()
            except Disconnected as error:
                self._failed(call, error)
                return
            self.nodes.throttle(call.node, response.throttle_time_ms)
            hints = leader_hints(call, response)
            if hints:
                self.metadata.add_leaders(hints, [*map(ClusterBroker.of, response.node_endpoints)])
            self._answered(call, response)

    def _answered(self, call: ProduceCall, response: ProduceResponse | None) -> None:
        with self.lock:
            stale = self.sender.answered(call, response, self.now_ms())
        self._call_waiters()
        self._refresh(stale)

    def _failed(self, call: ProduceCall, error: Exception) -> None:
        code = ErrorCode.NETWORK_EXCEPTION
        if isinstance(error, UnsupportedVersion):
            code = ErrorCode.UNSUPPORTED_VERSION
        elif isinstance(error, Silent):
            code = ErrorCode.REQUEST_TIMED_OUT
        with self.lock:
            stale = self.sender.failed(call, code, str(error), self.now_ms())
        self._call_waiters()
        self._refresh(stale)

    def _refresh(self, stale: set[TopicPartition]) -> None:
        if stale:
            self.metadata.request_update()
        self.send_due()


def leader_hints(call: ProduceCall, response: ProduceResponse) -> dict[TopicPartition, LeaderHint]:
    """Return the new leaders that a response reports (KIP-951)."""
    return (
        {
            batch.partition: LeaderHint(answer.current_leader.leader_id, answer.current_leader.leader_epoch)
            for batch, answer in call.answers(response)
            if answer.error_code and answer.current_leader.leader_id >= 0
        }
        if response.node_endpoints
        else {}
    )
