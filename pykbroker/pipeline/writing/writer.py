"""The writer of one source partition: transactions of records, each with the position of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import msgspec

from pykbroker.core.consumer.commits import CommitIdentity
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.errors import ApiError
from pykbroker.core.producer.errors import (
    NOT_ABORTED,
    DeliveryExpired,
    InvalidProducerEpoch,
    ProducerClosed,
    ProducerFenced,
    RecordTooLarge,
    TransactionTimeout,
)
from pykbroker.core.producer.sender import OTHER_RECORD
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.core.producer.transactions.result import CallResult
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import PipelineCluster
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.source.client_options import secured
from pykbroker.pipeline.writing.position import PositionPlace, SourcePosition, committed_position, position_of
from pykbroker.producer import RowsFailed
from pykbroker.producer.delivery import ColumnsDelivery
from pykbroker.producer.settings import producer_settings
from pykbroker.producer.threaded import ThreadedProducer

PRODUCER = {
    "client.id": "pykbroker-pipeline",
    "batch.size": str(256 << 10),
    "max.request.size": str(32 << 20),  # the limit of the topic decides about large records
    "buffer.memory": str(64 << 20),
}
"""The settings of the producer that differ from Kafka's defaults. Settings of the user take precedence."""


CLOSE_S_MAX = 10


class WriteTarget(msgspec.Struct, frozen=True):
    """The target of one source partition. Without a `partition`, the key of a record decides.

    `name` is that of the source partition, and `facts` are those with which its position is committed.
    """

    name: str
    transactional_id: str
    topic: str
    partition: int | None
    place: PositionPlace
    facts: dict[str, str] = {}


class TransactionalWriter:
    """A producer that writes the records of one source partition, from its position on. PipelineError: it has failed.

    `settings` are those of the producer, in Kafka's names. `position` is that of the open transaction.
    """

    def __init__(self, settings: Mapping[str, str], target: WriteTarget) -> None:
        self._target, self._cluster = target, PipelineCluster(settings["bootstrap.servers"], secured(settings))
        given = {**PRODUCER, **settings, "transactional.id": target.transactional_id}
        self._producer = ThreadedProducer(target.transactional_id, producer_settings(given))
        self._deliveries: list[tuple[ColumnsDelivery, Any]] = []
        """The deliveries of the open transaction, each with the source offsets of its rows."""
        self.is_open = False
        self.position = SourcePosition()

    def begin(self) -> None:
        """Fence earlier writers of the source partition, and read the position that the last of them has committed."""
        with self._failures():
            self._call(TransactionManager.init)
        place = self._target.place
        found = self._cluster.committed(place.group, [place.key])
        self.position = position_of(found.get(place.key), self._target.facts, place)

    def write(self, table: Any, offsets: Any) -> None:
        """Send the rows of an Arrow table in the open transaction, or in a new one.

        `offsets` is an Arrow array of the source offsets of the rows.
        """
        with self._failures():
            if not self.is_open:
                self._producer.begin_transaction()
                self.is_open = True
            self._deliveries.append((self._sent(table, offsets), offsets))
        self.position = SourcePosition(offsets[-1].as_py() + 1, self.position.records + table.num_rows)

    def _sent(self, table: Any, offsets: Any) -> ColumnsDelivery:
        target = self._target
        try:
            return self._producer.send_many(target.topic, table, partition=target.partition)
        except RecordTooLarge as error:
            refused = None if error.row is None else RefusedRecord(offsets[error.row].as_py(), error)
            raise PipelineError(why_not_written(target, error, refused)) from error

    def commit(self) -> None:
        """Commit the open transaction with the position."""
        target = self._target
        offsets = {target.place.key: committed_position(self.position, target.facts)}
        identity = CommitIdentity(target.place.group)
        with self._failures():
            self._call(lambda manager: manager.send_offsets(offsets, identity))
            self._call(TransactionManager.commit)
        self.is_open = False
        self._deliveries.clear()

    def close(self) -> None:
        """Abort the open transaction, and close the connections. A transaction that stays open ends by its time-out."""
        if self.is_open:
            self.is_open = False
            with suppress(*NOT_ABORTED, ProducerClosed):
                self._call(TransactionManager.abort)
        self._producer.close(CLOSE_S_MAX)

    def _call(self, call: Callable[[TransactionManager], CallResult]) -> None:
        self._producer.call(call)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise the errors of the producer as PipelineError, with that of the first record if there is one."""
        try:
            yield
        except (ApiError, TimeoutError, ValueError) as error:
            raise PipelineError(why_not_written(self._target, error, refused_record(self._deliveries))) from error


class RefusedRecord(NamedTuple):
    """A record that was not written: its offset in the source partition, and its error."""

    offset: int
    error: Exception


def refused_record(deliveries: Iterable[tuple[ColumnsDelivery, Any]]) -> RefusedRecord | None:
    """Return the first record that has failed of deliveries, each with the source offsets of its rows."""
    for delivery, offsets in deliveries:
        if delivery.is_done:
            try:
                delivery.result()
            except RowsFailed as failed:
                alone = [row for row, error in failed.errors.items() if OTHER_RECORD not in str(error)]
                row = min(alone or failed.errors)
                return RefusedRecord(offsets[row].as_py(), failed.errors[row])
    return None


def why_not_written(target: WriteTarget, error: Exception, refused: RefusedRecord | None) -> str:
    """Return an error of the producer as a sentence. `refused` is the first record of the transaction that failed."""
    if isinstance(error, ProducerFenced | InvalidProducerEpoch):
        return (
            f"{target.name}: another task has taken over, since it has the same job and began later, or the "
            "transaction has expired because the brokers were away: start the job again, which continues"
        )
    if isinstance(error, TransactionTimeout) or (refused and isinstance(refused.error, DeliveryExpired)):
        return (
            f"{target.name}: the brokers of {target.topic} have not answered for too long: start the job again when "
            "they are back, and it continues behind its last transaction"
        )
    if refused:
        return (
            f"{target.name}: the record at offset {refused.offset} cannot be written to {target.topic}: {refused.error}"
        )
    advice = (
        "; if the brokers were away, start the job again, which continues" if isinstance(error, TimeoutError) else ""
    )
    return f"{target.name}: {target.topic} cannot be written: {error}{advice}"


def read_positions(cluster: PipelineCluster, targets: Sequence[WriteTarget]) -> list[SourcePosition]:
    """Return the last committed position of each source partition. Transactions that are open do not count.

    Raise StateConflict if a position belongs to another job.
    """
    return _positions(targets, {group: cluster.last_committed(group) for group in _keys_of_groups(targets)})


def read_settled_positions(cluster: PipelineCluster, targets: Sequence[WriteTarget]) -> list[SourcePosition]:
    """Return the committed position of each source partition, once no transaction with a position is open.

    A commit of Kafka is answered when it is decided, before the position is there. StateConflict as by
    `read_positions`.
    """
    found = {group: cluster.committed(group, keys) for group, keys in _keys_of_groups(targets).items()}
    return _positions(targets, found)


def _keys_of_groups(targets: Iterable[WriteTarget]) -> dict[str, list[TopicPartition]]:
    keys: dict[str, list[TopicPartition]] = {}
    for target in targets:
        keys.setdefault(target.place.group, []).append(target.place.key)
    return keys


def _positions(
    targets: Iterable[WriteTarget], found: Mapping[str, Mapping[TopicPartition, CommittedOffset]]
) -> list[SourcePosition]:
    return [
        position_of(found[target.place.group].get(target.place.key), target.facts, target.place) for target in targets
    ]
