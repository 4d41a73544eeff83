"""The producer for asyncio, with the names of aiokafka."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from pykbroker.client.aiokafka_arguments import without_aiokafka_defaults
from pykbroker.client.arrow import ArrowTable
from pykbroker.core.consumer.commits import CommitIdentity
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.producer.batch import ProducerBatch
from pykbroker.core.producer.errors import ProducerClosed
from pykbroker.core.producer.intake import TopicIntake
from pykbroker.core.producer.record import ProducerRecord, SerializedRecord
from pykbroker.core.producer.transactions.calls import GroupMember, OffsetToCommit
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.core.producer.transactions.result import CallResult
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer.appending import MemoryWait, TopicWait, Wait, append_columns, append_record
from pykbroker.producer.delivery import ColumnsDelivery, ColumnsResult, Delivery, RecordMetadata
from pykbroker.producer.record import to_bytes
from pykbroker.producer.settings import producer_settings
from pykbroker.producer.statistics import ProducerStatistics
from pykbroker.producer.threaded import ThreadedProducer
from pykbroker.world.background import LoopEnded
from pykbroker.world.client_world import ClientWorld
from wire.records.record import Headers

T = TypeVar("T")
AIOKAFKA_NAMES = {"max_batch_size": "batch_size"}
PartitionFunction = Callable[[bytes | None, list[int], list[int]], int]
"""A function of the serialized key, all partitions of the topic and those with a leader. It returns a partition."""
client_numbers = itertools.count(1)


class AsyncDelivery:
    """A record that was handed to the producer. Awaiting it returns its RecordMetadata, or raises its error."""

    __slots__ = ("_delivery", "_producer")

    def __init__(self, producer: ThreadedProducer, delivery: Delivery) -> None:
        self._producer, self._delivery = producer, delivery

    def done(self) -> bool:
        """Whether the record is written or has failed."""
        return self._delivery.is_done

    def result(self) -> RecordMetadata:
        """Return the place where the record was written, once `done` is true. Raise its error otherwise."""
        return self._delivery.result()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        yield from wait_settled(self._producer, self._delivery.batch).__await__()
        return self._delivery.result()


class AsyncColumnsDelivery:
    """The delivery of all rows of columns. Awaiting it returns a ColumnsResult, or raises RowsFailed."""

    def __init__(self, producer: ThreadedProducer, delivery: ColumnsDelivery) -> None:
        self._producer, self._delivery = producer, delivery

    def __await__(self) -> Generator[Any, None, ColumnsResult]:
        for batch, _, _ in self._delivery.parts:
            yield from wait_settled(self._producer, batch).__await__()
        return self._delivery.result()


class AsyncProducer:
    """A producer for asyncio. The settings have Kafka's names; aiokafka's `max_batch_size` is `batch_size`.

    `partitioner` may also be a function of the serialized key, all partitions and those with a leader, as in aiokafka.
    It returns the partition of a record. aiokafka's `loop` and `api_version` are accepted without effect.

    A background thread sends, on trio. Records are appended in the thread of the event loop. Use it with `async with`,
    or call `start` first and `stop` at the end.
    """

    def __init__(self, *, world: ClientWorld | None = None, **settings: Any) -> None:
        named = {AIOKAFKA_NAMES.get(name, name): value for name, value in without_aiokafka_defaults(settings).items()}
        named.setdefault("client_id", f"pykbroker-producer-{next(client_numbers)}")
        self._partitioner: PartitionFunction | None = (
            named.pop("partitioner") if callable(named.get("partitioner")) else None
        )
        self._settings, self._world = producer_settings(named), world
        self._started: ThreadedProducer | None = None
        self._is_turn_due = False
        """Whether a batch was opened, so that other tasks run before the next record."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the background thread, and get the producer id of `transactional_id` if there is one, as aiokafka does.

        A second call does nothing.
        """
        if self._started is None:
            producer = self._started = ThreadedProducer(self._settings.client_id, self._settings, self._world)
            if self._settings.transactional_id is not None:
                try:
                    await self._call(TransactionManager.init)
                except BaseException:
                    self._started = None
                    producer.close(0)
                    raise

    async def stop(self, timeout: float | None = None) -> None:
        """Send all records and close the producer. Records that remain after `timeout` seconds fail.

        If the call is cancelled, they fail at once. Before `start`, this does nothing.
        """
        if self._started is None:
            return
        producer = self._started
        closing = asyncio.create_task(asyncio.to_thread(producer.close, timeout))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            producer.end_soon()
            await closing
            raise

    @property
    def _running(self) -> ThreadedProducer:
        if self._started is None:
            raise RuntimeError("the producer is not started: use `async with`, or await start() first")
        return self._started

    # ---- records

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] | None = None,
    ) -> AsyncDelivery:
        """Append a record and return its delivery, which may be awaited or dropped. Errors are those of `Producer`.

        Wait up to `max_block_ms` for metadata and memory. Other tasks get a turn after each batch that was opened. A
        cancelled call appends nothing.
        """
        producer = self._running
        if self._is_turn_due:
            self._is_turn_due = False
            await asyncio.sleep(0)
        try:
            if self._partitioner is None:
                sent = producer.try_send(topic, value, key, partition, headers or (), timestamp_ms)
            else:
                record = ProducerRecord(topic, value, key, partition, headers or (), timestamp_ms)
                sent = await self._try_send_partitioned(producer, record, self._partitioner)
            if not isinstance(sent, Delivery):
                sent = await append_record(producer.front, self._wait, sent)
            elif not sent.index:
                self._is_turn_due = True
        except Exception as error:
            producer.front.refused(error)
            raise
        return AsyncDelivery(producer, sent)

    async def _try_send_partitioned(
        self, producer: ThreadedProducer, record: ProducerRecord, partitioner: PartitionFunction
    ) -> Delivery | SerializedRecord:
        """Append a record to the partition that the user's function selects, or return it serialized."""
        record = producer.front.serialized(record)
        if record.partition is None:
            found = await self._topic(record.topic)
            partitions = range(len(found.partitions))
            chosen = partitioner(to_bytes("key", record.key), list(partitions), list(found.available))
            if chosen not in partitions:
                raise ValueError(
                    f"the partitioner returned {chosen!r} for topic '{record.topic}': it must return a partition "
                    f"from 0 to {partitions[-1]}"
                )
            record = record._replace(partition=chosen)
        producer.loop.check()
        return producer.try_append(record)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] | None = None,
    ) -> RecordMetadata:
        """Send a record and wait until it is written. Raise its error."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    async def send_many(
        self,
        topic: str,
        values: Sequence[bytes | None] | ArrowTable,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers] | None = None,
        timestamps: Sequence[int] | None = None,
        partition: int | None = None,
    ) -> AsyncColumnsDelivery:
        """Append records from columns, as `Producer.send_many` does, with the same errors.

        No serializer applies, and no partitioner that is a function.
        """
        producer = self._running
        producer.loop.check()
        append = append_columns(producer.front, self._wait, topic, values, keys, headers, timestamps, partition)
        return AsyncColumnsDelivery(producer, await append)

    async def _wait(self, wait: Wait) -> None:
        producer = self._running
        if isinstance(wait, MemoryWait):
            event = ThreadsafeEvent()

            def served() -> None:
                if not event.set():  # nobody waits any more
                    producer.shell.pool.leave_line(wait.ticket)

            producer.front.stand_in_line(wait.ticket, served)
            await event.wait(min(wait.timeout_s, threading.TIMEOUT_MAX))
        elif isinstance(wait, TopicWait):
            await self._ask(producer.shell.topics.wait, *wait)
        else:
            await asyncio.sleep(0)

    async def _ask(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run a function in the background thread, and return its result. A cancellation cancels the function."""
        producer = self._running
        producer.check_open()
        with producer.ending_with_producer():
            return await producer.loop.call_async(function, *args)

    async def _call(self, call: Callable[[TransactionManager], CallResult]) -> None:
        transacting = self._running.shell.transacting
        transacting.acknowledge(await self._ask(transacting.result_of, call))

    # ---- transactions

    async def begin_transaction(self) -> None:
        """Begin a transaction. Errors are those of `Producer`. A cancelled call has not begun one."""
        await asyncio.sleep(0)
        self._running.begin_transaction()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetToCommit | Any], group_id: GroupMember | str
    ) -> None:
        """Commit the offsets of a consumer group with the transaction.

        Pass `AsyncConsumer.group_member()` instead of the group id, so that members that the group has removed are
        fenced (KIP-447). An offset may be a number, or a pair of a number and a text, as in aiokafka.
        """
        member = CommitIdentity(group_id) if isinstance(group_id, str) else group_id
        found = {TopicPartition(*partition): offset_of(each) for partition, each in offsets.items()}
        await self._call(lambda manager: manager.send_offsets(found, member))

    async def commit_transaction(self) -> None:
        """Send all records of the transaction and commit it. Raise the error if a record failed."""
        await self._call(TransactionManager.commit)

    async def abort_transaction(self) -> None:
        """Abort the transaction. Records that were never sent fail with TransactionAborted."""
        await self._call(TransactionManager.abort)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a transaction, and commit it at the end of the block. Abort it if the block or the commit fails.

        A commit that is cancelled goes on, and is waited for.
        """
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException as error:
            with suppress(ProducerClosed, LoopEnded):  # a producer that has ended can abort nothing
                await self._ask(self._running.shell.transacting.give_up, error)
            raise

    # ---- all records

    async def flush(self) -> None:
        """Send all records at once, and wait until the outcome of each is known."""
        producer = self._running
        for batch in producer.shell.flush():
            await wait_settled(producer, batch)

    def statistics(self) -> ProducerStatistics:
        """Return a snapshot of what the producer has done, and of its memory."""
        return self._running.shell.statistics()

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic. Raise MetadataTimeout if they are unknown after `max_block_ms`."""
        return set(range(len((await self._topic(topic)).partitions)))

    async def _topic(self, topic: str) -> TopicIntake:
        """Return a topic once its partitions are known."""
        producer = self._running
        found = producer.front.find(topic, None)
        if found is None:
            found = await self._ask(producer.shell.topics.wait, topic, None, self._settings.max_block_ms / 1000)
        return found


def offset_of(given: Any) -> Any:
    """Return an offset to commit, which may be a number, or a pair of a number and a text as in aiokafka."""
    if isinstance(given, int):
        return CommittedOffset(given)
    is_pair = isinstance(given, tuple) and len(given) == 2
    return CommittedOffset(given[0], metadata=given[1]) if is_pair else given


class ThreadsafeEvent:
    """An asyncio event that any thread may set."""

    def __init__(self) -> None:
        self._loop, self._event = asyncio.get_running_loop(), asyncio.Event()

    def set(self) -> bool:
        """Set the event soon. Return False if the event loop is closed."""
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            return False
        return True

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait until the event is set, or for the time-out."""
        try:
            await asyncio.wait_for(self._event.wait(), timeout_s)
        except TimeoutError:
            return


async def wait_settled(producer: ThreadedProducer, batch: ProducerBatch) -> None:
    """Wait until the outcome of a batch is known."""
    if batch.is_settled:
        return
    settled = ThreadsafeEvent()
    if producer.call_when_settled(batch, settled.set):
        await settled.wait()
