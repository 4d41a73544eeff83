"""The part of a producer's faces that never waits: from the arguments of a call to a record in a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast

import trio

from pykbroker.client.arrow import columns_of, is_table
from pykbroker.core.producer.batch import ProducerBatch
from pykbroker.core.producer.buffer_pool import MemoryTicket
from pykbroker.core.producer.columns import Columns
from pykbroker.core.producer.errors import BufferExhausted, ProducerClosed
from pykbroker.core.producer.intake import TopicIntake
from pykbroker.core.producer.record import ProducerRecord, SerializedRecord, serialized_record
from pykbroker.producer.delivery import ColumnsDelivery, ColumnsResult, Delivery, RecordMetadata, RowsFailed
from pykbroker.producer.interceptors import Interceptors
from pykbroker.producer.record import (
    ProducerColumns,
    by_row,
    headers_of,
    partition_of,
    serialized,
    timestamp_of,
    timestamps_of,
    to_bytes,
)
from pykbroker.producer.shell import ProducerShell

RecordFields = tuple[str, Any, Any, int | None, Iterable[tuple[str, bytes | None]], int | None]
"""The fields of a ProducerRecord."""


class Front:
    """The way of a record into a batch. `try_send` and `try_append` are called under the lock of the shell."""

    def __init__(self, shell: ProducerShell) -> None:
        settings = shell.settings
        self._shell, self._intake, self._wall_ms = shell, shell.intake, shell.world.wall_ms
        self._transactions = shell.transactions
        self._key_serializer, self._value_serializer = settings.key_serializer, settings.value_serializer
        self._interceptors = Interceptors(settings.interceptors)
        self.sends_plain = not (self._interceptors or self._key_serializer or self._value_serializer)
        """Whether neither an interceptor nor a serializer sees records."""

    def try_send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Iterable[tuple[str, bytes | None]],
        timestamp: int | None,
    ) -> Delivery | SerializedRecord:
        """Append a record to an open batch. If there is none with room, return the record for `append`.

        The arguments are no object, which would cost a record without a key a quarter more. Raise TypeError for a key,
        value or header that is not bytes after serialization, and TypeError or ValueError for a timestamp that Kafka
        does not have.
        """
        # Most records go into the batch of the sticky partition (KIP-794), without the tuple and the checks below.
        if key is None and partition is None and type(value) is bytes and not headers and self.sends_plain:
            found = self._intake.topics.get(topic)
            if found is not None and (batch := found.batch) is not None:
                if self._transactions is not None and not self._transactions.is_open:
                    self._transactions.check_send()
                index = batch.try_append(
                    None, value, (), self._wall_ms() if timestamp is None else timestamp_of(timestamp)
                )
                if index is not None:
                    return Delivery(batch, index)
        record = (topic, value, key, partition, headers, timestamp)
        return self.try_append(record if self.sends_plain else self.serialized(ProducerRecord(*record)))

    def try_append(self, record: RecordFields) -> Delivery | SerializedRecord:
        """Append any record as `try_send` does, after interceptors and serializers."""
        topic, value, key, partition, headers, timestamp = record
        # kafka-python also checks the key before the value, so that the error names the key if both are wrong.
        partition, key = partition_of(partition), to_bytes("key", key)
        checked = serialized_record(
            (
                topic,
                to_bytes("value", value),
                key,
                partition,
                headers_of(headers) if headers else (),
                self._wall_ms() if timestamp is None else timestamp_of(timestamp),
            )
        )
        self._check_transaction()
        found = self._intake.topics.get(topic)
        appended = None if found is None else self._intake.try_append(found, checked)
        return checked if appended is None else self._delivery(*appended)

    @trio.lowlevel.disable_ki_protection
    def serialized(self, record: ProducerRecord) -> ProducerRecord:
        """Return a record after interceptors and serializers, whose code belongs to the user. This needs no lock."""
        if self._interceptors:
            record = self._interceptors.on_send(record)
        key, value = self._key_serializer, self._value_serializer
        return record._replace(
            key=record.key if key is None else serialized("key", record.key, key),
            value=record.value if value is None else serialized("value", record.value, value),
        )

    def append(self, record: SerializedRecord, ticket: MemoryTicket | None = None) -> Delivery | None:
        """Append a record to an open batch or a new one. Return None if metadata or memory is lacking.

        `ticket` has the memory that the caller has waited for, and whose rest `leave_line` returns.
        """
        with self._shell.lock:
            found = self._checked(record.topic, record.partition, ticket)
            if found is None:
                return None
            try:
                appended = self._intake.append(found, record, self._shell.now_ms(), ticket)
                return None if appended is None else self._delivery(*appended)
            except BaseException:
                self._interrupted()
                raise

    def append_columns(
        self, topic: str, partition: int | None, columns: Columns, start: int, ticket: MemoryTicket | None = None
    ) -> tuple[ProducerBatch, int, int] | None:
        """Append rows from `start` on to one batch. Return the batch, the first row's index there, and the next row.

        Return None if metadata or memory is lacking. `ticket` is that of `append`.
        """
        with self._shell.lock:
            found = self._checked(topic, partition, ticket)
            if found is None:
                return None
            try:
                appended = self._intake.append_columns(found, partition, columns, start, self._shell.now_ms(), ticket)
                if appended is not None and not appended[1]:
                    self._opened(appended[0])
            except BaseException:
                self._interrupted()
                raise
            return appended

    def _checked(self, topic: str, partition: int | None, ticket: MemoryTicket | None) -> TopicIntake | None:
        """Return the topic if it is known and the transaction permits an append. If it is unknown, free the memory."""
        self._check_transaction()
        found = self._shell.topics.find(topic, partition)
        if found is None and ticket is not None:
            self._shell.accumulator.guarded(self._shell.pool.leave_line, ticket)
        return found

    def ticket(self, size: int) -> MemoryTicket:
        """Return a ticket for the memory of a batch that is opened for `size` bytes, which is not in line yet."""
        return MemoryTicket(self._shell.accumulator.memory_for(size), int)

    def ticket_for_columns(
        self, topic: TopicIntake, partition: int | None, columns: Columns, start: int
    ) -> MemoryTicket:
        """Return a ticket for the memory of a batch that is opened for rows from `start` on, as `ticket` does."""
        with self._shell.lock:
            return self.ticket(self._intake.batch_bytes(topic, partition, columns, start))

    def deadline_ms(self) -> float:
        """Return the time after which a call that begins now must not wait any more, as `max_block_ms` says."""
        return self._shell.now_ms() + self._shell.settings.max_block_ms

    def left_s(self, deadline_ms: float) -> float:
        """Return the seconds until a deadline, at least 0."""
        return max(0.0, deadline_ms - self._shell.now_ms()) / 1000

    def stand_in_line(self, ticket: MemoryTicket, served: Callable[[], Any]) -> None:
        """Put a ticket in line for memory. `served` is called when the memory is there or the pool closes."""
        ticket.on_served = served
        with self._shell.lock:
            self._shell.accumulator.guarded(self._shell.pool.stand_in_line, ticket)
            self._shell.wake()

    def check_served(self, ticket: MemoryTicket) -> None:
        """Check that the memory of a ticket has arrived, after the wait.

        Raise BufferExhausted if it has not, and ProducerClosed if the producer was closed meanwhile.
        """
        settings = self._shell.settings
        with self._shell.lock:
            if ticket.is_closed:
                raise ProducerClosed("the producer was closed while a record waited for memory")
            if not ticket.is_served:
                raise BufferExhausted(
                    f"no {ticket.size} bytes of buffer_memory={settings.buffer_memory} became free within "
                    f"max_block_ms={settings.max_block_ms}"
                )

    def leave_line(self, ticket: MemoryTicket | None) -> None:
        """Return the memory of a ticket that no batch has taken."""
        if ticket is not None:
            with self._shell.lock:
                self._shell.accumulator.guarded(self._shell.pool.leave_line, ticket)

    def find(self, topic: str, partition: int | None) -> TopicIntake | None:
        """Return a topic that is known to have the partition, or None. The partition None stands for any."""
        return self._shell.topics.find(topic, partition)

    def groups(
        self, topic: TopicIntake, columns: Columns, partition: int | None
    ) -> Iterable[tuple[int | None, Sequence[int] | None]]:
        """Return the partition of each group of rows, or None for any partition. The rows None stand for all rows."""
        if partition is not None or columns.keys is None:
            return [(partition, None)]
        return self._intake.rows_by_partition(topic, columns.keys).items()

    @trio.lowlevel.disable_ki_protection
    def columns(self, given: ProducerColumns | tuple[Any, ...]) -> ProducerColumns:
        """Return columns of which `values` is a `Columns` that can be appended, after a check of every row.

        `values` may be an Arrow table. Interceptors see the columns once, before the check.
        """
        given = ProducerColumns(*given)
        if is_table(given.values):
            if any(column is not None for column in (given.keys, given.headers, given.timestamps)):
                raise ValueError("a table has all columns: pass no keys, headers or timestamps beside it")
            values, keys, headers, times = columns_of(given.values, self._wall_ms())
            given = given._replace(values=values, keys=keys, headers=headers, timestamps=times)
        if self._interceptors:
            given = self._interceptors.on_send_many(given)
        for name, column in (("values", given.values), ("keys", given.keys), ("headers", given.headers)):
            if column is not None and not hasattr(column, "__len__"):
                raise TypeError(f"the column '{name}' is of type {type(column).__name__}: pass a list or a tuple")
        columns = Columns(
            given.values,
            given.keys,
            None if given.headers is None else by_row(lambda each: headers_of(each) if each else (), given.headers),
            self._wall_ms() if given.timestamps is None else timestamps_of(given.timestamps),
        )
        if len(columns):
            largest = columns.largest_row()
            self._intake.check_size(columns.record_bytes_max(largest), largest)
        return given._replace(values=cast(Any, columns), partition=partition_of(given.partition))

    def acknowledge_many(self, delivery: ColumnsDelivery) -> None:
        """Pass the outcome of columns to the interceptors, once that of every row is known."""
        if not self._interceptors:
            return
        with self._shell.lock:
            unsettled = next((batch for batch, _, _ in delivery.parts if not batch.is_settled), None)
            if unsettled is not None:
                unsettled.when_settled(partial(self.acknowledge_many, delivery))
                return
        result: ColumnsResult | None = None
        error: Exception | None = None
        try:
            result = delivery.result()
        except RowsFailed as failed:
            error = failed
        self._interceptors.on_acknowledgement_many(result, error)

    def close(self) -> None:
        self._interceptors.close()

    def _delivery(self, batch: ProducerBatch, index: int) -> Delivery:
        delivery = Delivery(batch, index)
        if self._interceptors:
            batch.when_settled(partial(self._acknowledge, delivery))
        if not index:
            self._opened(batch)  # at last, since a batch with acks=0 may be settled now
        return delivery

    def _check_transaction(self) -> None:
        """Raise IllegalCall or TransactionError if no transaction is open, and one is needed."""
        if self._transactions is not None and not self._transactions.is_open:
            self._transactions.check_send()

    def _opened(self, batch: ProducerBatch) -> None:
        if self._transactions is not None:
            self._transactions.add_partition(batch.partition)
        self._shell.wake()

    def _interrupted(self) -> None:
        """Do what must follow the opening of a batch for all batches, since an error may have come before it."""
        if self._transactions is not None and self._transactions.is_open:
            for batch in self._shell.accumulator.incomplete.batches():
                if batch.outcome is None:
                    self._transactions.add_partition(batch.partition)
        self._shell.wake()

    def refused(self, error: Exception) -> None:
        """Note that a record was not appended, as `failed` does, and pass its error to the interceptors."""
        self.failed(error)
        if self._interceptors:
            self._interceptors.on_acknowledgement(None, error)

    def refused_many(self, error: Exception) -> None:
        """Note that columns were not appended, and pass their error to the interceptors."""
        self.failed(error)
        if self._interceptors:
            self._interceptors.on_acknowledgement_many(None, error)

    def failed(self, error: Exception) -> None:
        """Note that a record was not appended. An open transaction can then only be aborted."""
        if self._transactions is not None and self._shell.process.is_current:
            with self._shell.lock:
                self._transactions.send_failed(error)

    def _acknowledge(self, delivery: Delivery) -> None:
        metadata: RecordMetadata | None = None
        error: Exception | None = None
        try:
            metadata = delivery.result()
        except Exception as failure:  # noqa: BLE001 - the interceptors decide what the error means
            error = failure
        self._interceptors.on_acknowledgement(metadata, error)
