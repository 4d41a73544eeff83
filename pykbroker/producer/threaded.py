"""A producer for threads: the shell runs on trio in a background thread, and records are appended by their callers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import inf
from typing import Any

import trio

from pykbroker.core.producer.batch import ProducerBatch, record_bytes_max
from pykbroker.core.producer.columns import Columns
from pykbroker.core.producer.errors import BufferExhausted, MetadataTimeout, ProducerClosed
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.core.producer.transactions.result import CallResult
from pykbroker.producer.delivery import ColumnsDelivery, Delivery
from pykbroker.producer.front import Front, Serialized
from pykbroker.producer.record import ProducerRecord
from pykbroker.producer.settings import ProducerSettings
from pykbroker.producer.shell import ProducerShell
from pykbroker.world.background import BackgroundLoop
from pykbroker.world.client_world import ClientWorld
from pykbroker.world.system import system_client_world
from pykbroker.world.yielding_lock import YieldingLock
from wire.records.record import Headers


class ThreadedProducer:
    """The common part of producers for threads and for asyncio. Its methods may be called in any thread.

    A record is appended under one lock, which is never held while anybody waits or while code of the user runs.
    """

    def __init__(self, name: str, settings: ProducerSettings, world: ClientWorld | None = None) -> None:
        self.settings, self.lock = settings, YieldingLock()
        self.shell = ProducerShell(settings, world or system_client_world(), self.lock, self._hop)
        self.front = Front(self.shell)
        self.loop = BackgroundLoop(name, self.shell.run)
        self.loop.start()
        self._is_closed = False

    def _hop(self, function: Any) -> None:
        self.loop.call_soon(function)

    # ---- records

    def try_send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Iterable[tuple[str, bytes | None]],
        timestamp: int | None,
    ) -> Delivery | Serialized:
        """Append a record, or return it serialized if metadata or memory must be waited for."""
        self.loop.check()
        front = self.front
        if front.sends_plain:
            self.lock.acquire()
            try:
                sent = front.try_send(topic, value, key, partition, headers, timestamp)
            finally:
                self.lock.release()
        else:
            record = front.serialized(ProducerRecord(topic, value, key, partition, headers, timestamp))
            with self.lock:
                sent = front.try_send_serialized(record)
        return sent if isinstance(sent, Delivery) else self.try_append(sent) or sent

    def try_append(self, row: Serialized, granted: int = 0) -> Delivery | None:
        """Append a record to an open batch or a new one. Return None if metadata or memory is lacking."""
        with self.lock:
            return self.front.append(row, granted)

    def append_waiting(self, row: Serialized) -> Delivery:
        """Append a record once metadata and memory are there.

        Raise MetadataTimeout or BufferExhausted after `max_block_ms`, and ProducerClosed.
        """
        deadline = self.deadline()
        self.wait_topic(row[0], row[1], deadline)
        delivery = self.try_append(row)
        while delivery is None:
            granted = self.wait_memory(record_bytes_max(row[2], row[3], row[4]), deadline)
            delivery = self.try_append(row, granted)
        return delivery

    def send_many(
        self,
        topic: str,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers] | None = None,
        timestamps: Sequence[int] | None = None,
        partition: int | None = None,
    ) -> ColumnsDelivery:
        """Append records from columns, as `Producer.send_many` does. Errors are the same."""
        self.loop.check()
        columns = self.front.columns(values, keys, headers, timestamps)
        delivery = ColumnsDelivery(topic, len(columns))
        if partition is not None or columns.keys is None:
            self._append_columns(topic, partition, columns, None, delivery)
            return delivery
        self.wait_topic(topic, None, self.deadline())
        with self.lock:
            groups = self.shell.intake.rows_by_partition(self.shell.intake.topics[topic], columns.keys)
        for chosen, rows in groups.items():
            self._append_columns(topic, chosen, columns.take(rows), rows, delivery)
        return delivery

    def _append_columns(
        self, topic: str, partition: int | None, columns: Columns, rows: Sequence[int] | None, delivery: ColumnsDelivery
    ) -> None:
        start = granted = 0
        try:
            self.wait_topic(topic, partition, self.deadline())
            while start < len(columns):
                with self.lock:
                    appended = self.front.append_columns(topic, partition, columns, start, granted)
                granted = 0
                if appended is None:
                    granted = self.wait_memory(columns.record_bytes_max(start), self.deadline())
                    continue
                batch, index, end = appended
                delivery.add(batch, index, range(start, end) if rows is None else rows[start:end])
                start = end
        except (MetadataTimeout, BufferExhausted, ProducerClosed) as error:
            if not delivery.parts:
                raise
            delivery.fail(error, range(start, len(columns)) if rows is None else rows[start:])

    # ---- transactions

    def call(self, call: Callable[[TransactionManager], CallResult]) -> None:
        """Make a call of the transaction protocol, and wait for its result as `Transactor.call` does."""
        self._check_open()
        self.loop.call(self.shell.transacting.call, call)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._check_open()
        self.loop.call(self.shell.transacting.call_now, TransactionManager.begin)

    def failed(self, error: Exception) -> None:
        """Note that a record was not appended. An open transaction can then only be aborted."""
        with self.lock:
            self.front.failed(error)

    # ---- waiting

    def deadline(self) -> float:
        """Return the time of the monotonic clock in s after which a call must not wait any more."""
        return time.monotonic() + self.settings.max_block_ms / 1000

    def left_s(self, deadline: float) -> float:
        """Return the seconds until a deadline, from 0 to the longest wait that `threading` permits (292 years)."""
        return min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)

    def wait_topic(self, name: str, partition: int | None, deadline: float) -> None:
        """Wait until a topic is known to have the partition."""
        if self.shell.topics.find(name, partition) is None:
            self._check_open()
            self.loop.call(self._wait_topic, name, partition, deadline - time.monotonic())

    async def _wait_topic(self, name: str, partition: int | None, timeout_s: float) -> None:
        await self.shell.topics.wait(name, partition, trio.current_time() + timeout_s)

    def wait_memory(self, size: int, deadline: float) -> int:
        """Wait in line for the memory of a batch with one record of `size` bytes. Return the bytes."""
        if self.loop.is_current_thread:
            raise BufferExhausted("buffer_memory is full, and a callback of the producer must not wait for it")
        served = threading.Event()
        with self.lock:
            ticket = self.shell.stand_in_line(size, served.set)
        try:
            served.wait(self.left_s(deadline))
        except BaseException:
            with self.lock:
                self.shell.pool.leave_line(ticket)
            raise
        with self.lock:
            return self.shell.granted(ticket)

    def wait_settled(self, batch: ProducerBatch, timeout_s: float | None = None) -> bool:
        """Wait until the outcome of a batch is known. Return False after the time-out."""
        self.loop.check()
        done = threading.Event()
        return not self.call_when_settled(batch, done.set) or done.wait(timeout_s)

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
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self.shell.flushing() as batches:
            return all(
                self.wait_settled(batch, None if deadline is None else self.left_s(deadline)) for batch in batches
            )

    def partitions_for(self, topic: str) -> list[int]:
        """Return the partitions of a topic. Raise MetadataTimeout if they are unknown after `max_block_ms`."""
        self.wait_topic(topic, None, self.deadline())
        with self.lock:
            return [each.partition for each in self.shell.intake.topics[topic].partitions]

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def close(self, timeout_s: float | None = None) -> None:
        """Accept no further records, send all records, and fail those that remain after the time-out."""
        if self._is_closed:
            return
        self._is_closed = True
        self.loop.check()
        self.shell.begin_close()
        try:
            if timeout_s != 0 and not self.loop.is_current_thread:
                self.flush(timeout_s)
        finally:
            self._end_close(timeout_s)
            self.front.close()

    def _end_close(self, timeout_s: float | None) -> None:
        with suppress(trio.RunFinishedError):
            if self.loop.is_current_thread:
                self.shell.end_close()
            else:
                self.loop.call(self._end_close_in_loop, timeout_s)
        self.loop.stop()

    async def _end_close_in_loop(self, timeout_s: float | None) -> None:
        with trio.move_on_after(inf if timeout_s is None else timeout_s):
            await self.shell.abort_open()
        self.shell.end_close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ProducerClosed("the producer is closed")
