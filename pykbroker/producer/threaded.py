"""A producer for threads: the shell runs on trio in a background thread, and records are appended by their callers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any, TypeVar

import trio

from pykbroker.client.arrow import ArrowTable
from pykbroker.core.producer.batch import ProducerBatch
from pykbroker.core.producer.errors import BufferExhausted, ProducerClosed
from pykbroker.core.producer.intake import TopicIntake
from pykbroker.core.producer.record import ProducerRecord, SerializedRecord
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.core.producer.transactions.result import CallResult
from pykbroker.producer.appending import MemoryWait, TopicWait, Wait, append_columns, append_record, run
from pykbroker.producer.delivery import ColumnsDelivery, Delivery
from pykbroker.producer.front import Front
from pykbroker.producer.settings import ProducerSettings
from pykbroker.producer.shell import ProducerShell
from pykbroker.world.background import BackgroundLoop, LoopEnded
from pykbroker.world.client_world import ClientWorld
from pykbroker.world.latch import Latch
from pykbroker.world.system import system_client_world
from pykbroker.world.yielding_lock import YieldingLock
from wire.records.record import Headers

T = TypeVar("T")


class ThreadedProducer:
    """The common part of producers for threads and for asyncio. Its methods may be called in any thread.

    A record is appended under one lock, which is never held while anybody waits or while code of the user runs.
    """

    def __init__(self, name: str, settings: ProducerSettings, world: ClientWorld | None = None) -> None:
        self.settings, self.lock = settings, YieldingLock()
        self.shell = ProducerShell(
            settings, world or system_client_world(), self.lock, lambda function: self.loop.call_soon(function)
        )
        self.front = Front(self.shell)
        self._is_closed = False
        self._closing = trio.CancelScope()
        self.loop = BackgroundLoop(name, self.shell.run, self._ended)
        self.loop.start()

    # ---- records

    def try_send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Iterable[tuple[str, bytes | None]],
        timestamp: int | None,
    ) -> Delivery | SerializedRecord:
        """Append a record, or return it serialized if metadata or memory must be waited for."""
        self.loop.check()
        front = self.front
        if not front.sends_plain:
            record = ProducerRecord(topic, value, key, partition, headers, timestamp)
            return self.try_append(front.serialized(record))
        with self.lock:
            sent = front.try_send(topic, value, key, partition, headers, timestamp)
        return sent if isinstance(sent, Delivery) else front.append(sent) or sent

    def try_append(self, record: ProducerRecord) -> Delivery | SerializedRecord:
        """Append a record as `try_send` does, after interceptors and serializers."""
        with self.lock:
            sent = self.front.try_append(record)
        return sent if isinstance(sent, Delivery) else self.front.append(sent) or sent

    def append_waiting(self, record: SerializedRecord) -> Delivery:
        """Append a record once metadata and memory are there.

        Raise MetadataTimeout or BufferExhausted after `max_block_ms`, and ProducerClosed.
        """
        return run(append_record(self.front, self.wait, record))

    def send_many(
        self,
        topic: str,
        values: Sequence[bytes | None] | ArrowTable,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers] | None = None,
        timestamps: Sequence[int] | None = None,
        partition: int | None = None,
    ) -> ColumnsDelivery:
        """Append records from columns, as `Producer.send_many` does, with the same errors."""
        self.loop.check()
        return run(append_columns(self.front, self.wait, topic, values, keys, headers, timestamps, partition))

    def wait(self, wait: Wait) -> tuple[()]:
        """Wait for a topic or for memory, in the thread of the caller."""
        if isinstance(wait, MemoryWait):
            if self.loop.is_current_thread:
                raise BufferExhausted("buffer_memory is full, and a callback of the producer must not wait for it")
            served = Latch()
            self.front.stand_in_line(wait.ticket, served.set)
            served.wait(wait.timeout_s)
            if wait.ticket.is_closed:
                self.loop.check()  # a crash has another error than `close`
        elif isinstance(wait, TopicWait):
            self.topic(*wait)
        return ()

    # ---- transactions

    def call(self, call: Callable[[TransactionManager], CallResult]) -> None:
        """Make a call of the transaction protocol, and wait for its result as `Transactor.call` does.

        The result is acknowledged in the thread of the caller, so that a call which is interrupted can be repeated.
        """
        transacting = self.shell.transacting
        transacting.acknowledge(self.ask(transacting.result_of, call))

    def begin_transaction(self) -> None:
        """Begin a transaction. This never waits."""
        transacting = self.shell.transacting
        self.check_open()
        self.loop.check()
        with self.lock:
            transacting.manager.begin()

    # ---- waiting

    def topic(self, name: str, partition: int | None = None, timeout_s: float | None = None) -> TopicIntake:
        """Return a topic once it is known to have the partition. The default of `timeout_s` is `max_block_ms`.

        Raise RuntimeError in a callback, which must not wait. Other errors are those of `ProducerTopics.wait`.
        """
        found = self.front.find(name, partition)
        if found is not None:
            return found
        if self.loop.is_current_thread:
            raise RuntimeError(
                f"topic '{name}' is not known yet, and a callback of the producer must not wait for it: call "
                "partitions_for before, or send from another thread"
            )
        left_s = self.settings.max_block_ms / 1000 if timeout_s is None else timeout_s
        return self.ask(self.shell.topics.wait, name, partition, left_s)

    def ask(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function in the background thread, and return its result. Raise ProducerClosed after `close`."""
        self.check_open()
        with self.ending_with_producer():
            return self.loop.call(function, *args)

    @contextmanager
    def ending_with_producer(self) -> Iterator[None]:
        """Raise ProducerClosed instead of the error of a call that ends because the producer is closed."""
        try:
            yield
        except LoopEnded as error:
            self.loop.check()
            raise ProducerClosed("the producer was closed during the call") from error

    def wait_settled(self, batch: ProducerBatch, timeout_s: float | None = None) -> bool:
        """Wait until the outcome of a batch is known. Return False after the time-out."""
        self.loop.check_process()
        done = Latch()
        if not self.call_when_settled(batch, done.set):
            return True
        self.loop.check_may_wait()
        return done.wait(timeout_s)

    def call_when_settled(self, batch: ProducerBatch, callback: Any) -> bool:
        """Let the background thread call back once the outcome of a batch is known. Return False if it is known."""
        with self.lock:
            if batch.is_settled:
                return False
            batch.when_settled(callback)
            return True

    # ---- all records

    def flush(self, timeout_s: float | None = None) -> bool:
        """Send all records at once, and wait for their outcomes. Return False after the time-out."""
        self.loop.check()
        deadline = inf if timeout_s is None else time.monotonic() + timeout_s
        return all(self.wait_settled(batch, deadline - time.monotonic()) for batch in self.shell.flush())

    def partitions_for(self, topic: str) -> list[int]:
        """Return the partitions of a topic. Raise MetadataTimeout if they are unknown after `max_block_ms`."""
        return [each.partition for each in self.topic(topic).partitions]

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def close(self, timeout_s: float | None = None) -> None:
        """Accept no further records, send all records, and fail those that remain after the time-out.

        A second call waits for the first one, and ends it at once after its own time-out. If the first call is
        interrupted, the records that remain fail at once.
        """
        self.loop.check_process()
        is_first = False
        try:
            with self.lock:
                is_first, self._is_closed = not self._is_closed, True
            if is_first:
                self._close(inf if timeout_s is None else time.monotonic() + timeout_s)
            elif not self.loop.is_current_thread and not self.loop.join(timeout_s):
                self.end_soon()
                self.loop.join()
        except BaseException:
            if is_first:
                self.loop.stop_soon()
            raise
        if is_first:
            self.loop.check()

    def end_soon(self) -> None:
        """Fail all records that remain, and end a `close` that waits for them."""
        self.loop.call_soon(self._end)

    def _end(self) -> None:
        self._closing.cancel()
        self.shell.end_close()

    def _close(self, deadline: float) -> None:
        try:
            self.shell.begin_close()
            if self.loop.is_current_thread:
                self.shell.end_close()
            else:
                self.loop.call(self._finish, deadline - time.monotonic())
        except LoopEnded:
            pass  # the crash has ended all waits
        finally:
            self.loop.stop()

    async def _finish(self, timeout_s: float) -> None:
        """Wait for the outcome of all records and of the open transaction, up to the time-out."""
        self._closing.deadline = trio.current_time() + timeout_s
        with self._closing:
            await self.shell.finish()
        self.shell.end_close()

    def _ended(self, failure: BaseException | None) -> None:
        """Fail what was appended after the end of the loop, or all records after a crash."""
        error = ProducerClosed("the producer is closed")
        if failure is not None:
            error = ProducerClosed(f"the thread of the producer has failed: {failure!r}")
            error.__cause__ = failure
        self.shell.abandon(error)
        self.front.close()

    def check_open(self) -> None:
        """Raise ProducerClosed after `close`."""
        if self._is_closed:
            raise ProducerClosed("the producer is closed")
