"""The producer for trio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from math import inf
from types import TracebackType
from typing import Any, Self

import trio

from pykbroker.client.arrow import ArrowTable
from pykbroker.client.nursery import leave_nursery
from pykbroker.core.producer.record import SerializedRecord
from pykbroker.core.producer.transactions.calls import GroupMember, OffsetToCommit
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer.appending import MemoryWait, TopicWait, Wait, append_columns, append_record
from pykbroker.producer.delivery import ColumnsDelivery, Delivery, wait_settled
from pykbroker.producer.front import Front
from pykbroker.producer.settings import producer_settings
from pykbroker.producer.shell import ProducerShell
from pykbroker.producer.statistics import ProducerStatistics
from pykbroker.world.client_world import ClientWorld
from pykbroker.world.system import system_client_world
from wire.records.record import Headers

NO_HEADERS: Iterable[tuple[str, bytes | None]] = ()


class Producer:
    """A producer for trio, which sends while its `async with` block runs.

    The settings have Kafka's names with underscores, such as `bootstrap_servers`, `acks`, `linger_ms` or
    `compression_type`. InvalidSetting is raised for a setting that is unknown or not allowed. At the end of the block,
    all records are sent. If the block is cancelled, records that were not acknowledged fail.
    """

    def __init__(self, *, world: ClientWorld | None = None, **settings: Any) -> None:
        self._settings = producer_settings(settings)
        self._shell = ProducerShell(self._settings, world or system_client_world(), nullcontext())
        self._front = Front(self._shell)
        self._nursery_manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> Self:
        self._shell.accumulator.loop = trio.lowlevel.current_trio_token()
        self._nursery_manager = trio.open_nursery()
        self._nursery = await self._nursery_manager.__aenter__()
        self._nursery.start_soon(self._shell.run)
        return self

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._nursery_manager is not None
        assert self._nursery is not None
        try:
            await self.aclose()
        finally:
            self._nursery.cancel_scope.cancel()
            await leave_nursery(self._nursery_manager, error)

    # ---- records

    @trio.lowlevel.enable_ki_protection
    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = NO_HEADERS,
        timestamp: int | None = None,
    ) -> Delivery:
        """Append a record and return its delivery, which may be awaited for the record's metadata, or dropped.

        `timestamp` is in ms since 1970, by default the time of the call. Wait up to `max_block_ms` for the topic's
        metadata and for memory. The call is a checkpoint when it opens a batch while others wait for their answer. A
        cancelled call appends nothing.

        Raise TypeError for a key or value that is not bytes after serialization. Raise RecordTooLarge for a record that
        can never be sent, MetadataTimeout or BufferExhausted after `max_block_ms`, and ProducerClosed.
        """
        try:
            sent = self._front.try_send(topic, value, key, partition, headers, timestamp)
            return sent if type(sent) is Delivery else await self._append_waiting(sent)  # type: ignore[arg-type]
        except Exception as error:
            self._front.refused(error)
            raise

    @trio.lowlevel.enable_ki_protection
    def send_nowait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = NO_HEADERS,
        timestamp: int | None = None,
    ) -> Delivery:
        """Append a record as `send` does, but raise trio.WouldBlock if `send` would wait."""
        try:
            sent = self._front.try_send(topic, value, key, partition, headers, timestamp)
            delivery = sent if isinstance(sent, Delivery) else self._front.append(sent)
            if delivery is None:
                self._shell.topics.use(topic)
        except Exception as error:
            self._front.refused(error)
            raise
        if delivery is None:
            raise trio.WouldBlock
        return delivery

    @trio.lowlevel.enable_ki_protection
    async def send_many(
        self,
        topic: str,
        values: Sequence[bytes | None] | ArrowTable,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers] | None = None,
        timestamps: Sequence[int] | None = None,
        partition: int | None = None,
    ) -> ColumnsDelivery:
        """Append records from columns of equal length, and return one delivery for all rows.

        `values` may also be an Arrow table (the extra `arrow`) with the column `value`, and optionally `key`,
        `timestamp` and `headers`.

        No serializer is applied. More rows than `buffer_memory` holds are appended in portions, each after a wait for
        memory of up to `max_block_ms`. Rows that get no memory fail; the delivery then names them. If the call is
        cancelled, the rows that were appended before are sent.

        Raise ValueError for columns of unlike length and for a table with other columns. Raise TypeError, ValueError or
        RecordTooLarge for a row that cannot be sent. Raise MetadataTimeout or BufferExhausted if no row was appended.
        """
        return await append_columns(self._front, self._wait, topic, values, keys, headers, timestamps, partition)

    async def _append_waiting(self, record: SerializedRecord) -> Delivery:
        """Append a record to a new batch, once metadata and memory are there. A cancelled call appends nothing."""
        await trio.lowlevel.checkpoint_if_cancelled()
        delivery = self._front.append(record)
        if delivery is None:
            return await append_record(self._front, self._wait, record)
        if len(self._shell.accumulator.incomplete) > 1:
            await trio.lowlevel.cancel_shielded_checkpoint()
        return delivery

    async def _wait(self, wait: Wait) -> None:
        if isinstance(wait, MemoryWait):
            served = trio.Event()
            self._front.stand_in_line(wait.ticket, served.set)
            with trio.move_on_after(wait.timeout_s):
                await served.wait()
        elif isinstance(wait, TopicWait):
            await self._shell.topics.wait(*wait)
        else:
            await trio.lowlevel.checkpoint()

    # ---- transactions

    @trio.lowlevel.enable_ki_protection
    async def init_transactions(self) -> None:
        """Get the producer id of `transactional_id`, and fence earlier producers with it. Call this once, at first.

        This and all calls for transactions raise IllegalCall in the wrong order, TransactionError if the transaction or
        the producer has failed, and TransactionTimeout after `max_block_ms`.
        """
        await self._shell.transacting.call(TransactionManager.init)

    @trio.lowlevel.enable_ki_protection
    async def begin_transaction(self) -> None:
        """Begin a transaction. All records that are sent before its end are part of it."""
        await self._shell.transacting.call_now(TransactionManager.begin)

    @trio.lowlevel.enable_ki_protection
    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetToCommit], member: GroupMember
    ) -> None:
        """Commit the offsets of a consumer group with the transaction, for exactly-once copies (KIP-447)."""
        await self._shell.transacting.call(lambda manager: manager.send_offsets(offsets, member))

    @trio.lowlevel.enable_ki_protection
    async def commit_transaction(self) -> None:
        """Send all records of the transaction and commit it. Raise the error if a record failed."""
        await self._shell.transacting.call(TransactionManager.commit)

    @trio.lowlevel.enable_ki_protection
    async def abort_transaction(self) -> None:
        """Abort the transaction. Records that were never sent fail with TransactionAborted."""
        await self._shell.transacting.call(TransactionManager.abort)

    @asynccontextmanager
    @trio.lowlevel.enable_ki_protection
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a transaction, and commit it at the end of the block. Abort it if the block or the commit fails.

        A commit that is cancelled goes on, and is waited for.
        """
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException as error:
            deadline = trio.current_time() + self._settings.max_block_ms / 1000
            with trio.CancelScope(shield=True, deadline=deadline):
                await self._shell.transacting.give_up(error)
            raise

    # ---- all records

    @trio.lowlevel.enable_ki_protection
    async def flush(self) -> None:
        """Send all records at once, and wait until the outcome of each is known. Their deliveries have the errors."""
        for batch in self._shell.flush():
            await wait_settled(batch)

    @trio.lowlevel.enable_ki_protection
    async def partitions_for(self, topic: str) -> list[int]:
        """Return the partitions of a topic. Raise MetadataTimeout if they are unknown after `max_block_ms`."""
        found = await self._shell.topics.wait(topic, None, self._settings.max_block_ms / 1000)
        return [each.partition for each in found.partitions]

    @trio.lowlevel.enable_ki_protection
    def statistics(self) -> ProducerStatistics:
        """Return a snapshot of what the producer has done, and of its memory."""
        return self._shell.statistics()

    @trio.lowlevel.enable_ki_protection
    async def aclose(self, timeout_s: float = inf) -> None:
        """Accept no further records, and send all records. After `timeout_s`, fail those that remain."""
        self._shell.begin_close()
        try:
            with trio.move_on_after(timeout_s):
                await self._shell.finish()
        finally:
            self._shell.end_close()
            self._front.close()
