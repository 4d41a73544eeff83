"""KafkaProducer, with kafka-python's arguments, methods and errors."""

from __future__ import annotations

import atexit
import itertools
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from threading import TIMEOUT_MAX
from types import TracebackType
from typing import Any, NamedTuple, Self

from pykbroker.client.arrow import ArrowTable
from pykbroker.client.cluster import Cluster
from pykbroker.core.producer.errors import RecordTooLarge, UnknownPartition
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.core.producer.transactions.result import CallResult
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka.errors import (
    BY_CODE,
    IllegalStateError,
    KafkaConfigurationError,
    KafkaTimeoutError,
    as_kafka,
    kafka_errors,
)
from pykbroker.kafka.future import FutureColumns, FutureRecordMetadata
from pykbroker.kafka.metrics import Metrics, grouped
from pykbroker.kafka.offsets import committed_offsets
from pykbroker.kafka.partitioner.abc import partition_with
from pykbroker.kafka.settings import (
    OWN_PARTITIONERS,
    PRODUCER_CONFIG,
    configuration_errors,
    producer_configs,
    producer_settings_of,
)
from pykbroker.kafka.structs import ConsumerGroupMetadata
from pykbroker.producer.delivery import Delivery
from pykbroker.producer.settings import producer_settings
from pykbroker.producer.threaded import ThreadedProducer
from wire.error_codes import ErrorCode
from wire.records.record import Headers

InvalidTopicError = BY_CODE[ErrorCode.INVALID_TOPIC_EXCEPTION]
client_numbers = itertools.count(1)


class KafkaProducer:
    """A producer that any number of threads may use, as kafka-python's.

    One background thread sends, on trio. `send` appends in the caller's thread and returns a future.
    KafkaConfigurationError is raised for an argument that is unknown or not allowed.
    """

    DEFAULT_CONFIG: Mapping[str, Any] = PRODUCER_CONFIG

    def __init__(self, **configs: Any) -> None:
        self.config = producer_configs(configs)
        if self.config["client_id"] is None:
            self.config["client_id"] = f"pykbroker-producer-{next(client_numbers)}"
        with configuration_errors():
            settings = producer_settings(producer_settings_of(self.config, configs))
        partitioner = self.config["partitioner"]
        self._partitioner = None if type(partitioner) in OWN_PARTITIONERS else partitioner
        self._init: CallResult | None = None
        """The result of the last call of `init_transactions`."""
        self._serialize_key = serializer_of("key_serializer", self.config["key_serializer"])
        self._serialize_value = serializer_of("value_serializer", self.config["value_serializer"])
        self._producer = ThreadedProducer(str(self.config["client_id"]), settings)
        self._finalizer = weakref.finalize(self, close_forgotten, self._producer)
        atexit.register(self._finalizer)

    def __str__(self) -> str:
        return (
            f"<KafkaProducer client_id={self.config['client_id']} transactional_id={self.config['transactional_id']}>"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: list[tuple[str, bytes]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Append a record and return its future. Wait up to `max_block_ms` for metadata and memory.

        Raise KafkaTimeoutError after that time, TypeError or ValueError for a record, a topic or a partition that is
        not valid, MessageSizeTooLargeError for a record that is too large, and IllegalStateError after `close`.
        """
        if self._producer.is_closed:
            raise IllegalStateError("KafkaProducer already closed!")
        if value is None and key is None:
            raise ValueError("Need at least one: key or value")
        headers = [] if headers is None else headers
        if headers:
            check_headers(headers)
        key_bytes, value_bytes = self._serialize_key(topic, headers, key), self._serialize_value(topic, headers, value)
        producer = self._producer
        sizes = (
            -1 if key_bytes is None else len(key_bytes),
            -1 if value_bytes is None else len(value_bytes),
            sum(len(name.encode()) + len(content) for name, content in headers) if headers else -1,
        )
        try:
            if partition is None and self._partitioner is not None:
                partition = self._partition(self._partitioner, topic, key, key_bytes, value, value_bytes)
            if partition is not None and producer.front.find(topic, partition) is None:
                self._check_partition(topic, partition)
            sent = producer.try_send(topic, value_bytes, key_bytes, partition, headers, timestamp_ms)
            delivery = sent if isinstance(sent, Delivery) else producer.append_waiting(sent)
        except (TypeError, ValueError, RecordTooLarge, UnknownPartition) as error:
            producer.front.failed(error)
            raise as_kafka(error) from error
        except Exception as error:
            producer.front.failed(error)
            failure = refusal(error)
            if isinstance(failure, KafkaTimeoutError | IllegalStateError | ValueError) or failure is error:
                raise failure from error
            return FutureRecordMetadata(producer, None, sizes, failure)
        return FutureRecordMetadata(producer, delivery, sizes)

    def send_many(
        self,
        topic: str,
        values: Sequence[bytes | None] | ArrowTable,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers] | None = None,
        timestamps: Sequence[int] | None = None,
        partition: int | None = None,
    ) -> FutureColumns:
        """Append records from columns or from an Arrow table, and return one future for all of them.

        kafka-python has no such method. The arguments are those of `pykbroker.producer.Producer.send_many`. No
        serializer and no partitioner applies. Errors are those of `send`.
        """
        try:
            sent = self._producer.send_many(topic, values, keys, headers, timestamps, partition)
        except Exception as error:
            raise refusal(error) from error
        return FutureColumns(self._producer, sent)

    def _check_partition(self, topic: str, partition: int) -> None:
        """Raise ValueError at once if the topic lacks the partition, as kafka-python does."""
        if partition not in self._producer.partitions_for(topic):
            raise ValueError(f"Unrecognized partition {partition} for topic {topic}")

    def _partition(
        self, partitioner: Any, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None
    ) -> int:
        """Return the partition that the user's partitioner selects."""
        producer = self._producer
        producer.topic(topic)
        chosen = partition_with(
            partitioner, topic, key, key_bytes, value, value_bytes, PartitionerView(producer.shell.metadata.cluster)
        )
        if chosen is None:
            raise ValueError(f"Partitioner did not assign a partition for topic {topic}!")
        return int(chosen)

    # ---- transactions

    def init_transactions(self) -> None:
        """Get the producer id of `transactional_id`, and fence earlier producers with it. Further calls do nothing.

        This and all calls for transactions raise IllegalStateError in the wrong order, KafkaTimeoutError after
        `max_block_ms`, and the broker's error if the transaction or the producer has failed.
        """
        found = self._init
        if found is None or not found.is_acknowledged or found.error is not None:
            self._call(self._request_producer_id)

    def _request_producer_id(self, manager: TransactionManager) -> CallResult:
        """Keep the result in the background thread. Ctrl-C could part it from a note that the caller's thread makes."""
        self._init = manager.init()
        return self._init

    def begin_transaction(self) -> None:
        """Begin a transaction. All records that are sent before its end are part of it."""
        with kafka_errors():
            self._producer.begin_transaction()

    def send_offsets_to_transaction(
        self, offsets: Mapping[tuple[str, int], Any], group_metadata: ConsumerGroupMetadata | str
    ) -> None:
        """Commit offsets of a consumer group with the transaction (KIP-447).

        `offsets` maps partitions to OffsetAndMetadata. A group id instead of the metadata does not fence old members.
        """
        given = ConsumerGroupMetadata(group_metadata) if isinstance(group_metadata, str) else group_metadata
        member = CommittingMember(given.group_id or "", given.member_id, given.generation_id, given.group_instance_id)
        committed = committed_offsets(offsets)
        self._call(lambda manager: manager.send_offsets(committed, member))

    def commit_transaction(self) -> None:
        """Send all records of the transaction and commit it. Raise the error if a record failed."""
        self._call(TransactionManager.commit)

    def abort_transaction(self) -> None:
        """Abort the transaction. Records that were never sent fail with TransactionAbortedError."""
        self._call(TransactionManager.abort)

    def _call(self, call: Callable[[TransactionManager], CallResult]) -> None:
        with kafka_errors():
            self._producer.call(call)

    # ---- all records

    def flush(self, timeout: float | None = None) -> None:
        """Send all records at once, and wait for their outcomes. Raise KafkaTimeoutError after `timeout` seconds."""
        if not self._producer.is_closed and not self._producer.flush(timeout):
            raise KafkaTimeoutError(f"Failed to flush buffered records within {timeout} secs")

    def close(self, timeout: float | None = None) -> None:
        """Send all records and close the producer. Records that remain after `timeout` seconds fail."""
        if timeout is not None and not 0 <= timeout <= TIMEOUT_MAX:
            raise ValueError(f"Invalid timeout: {timeout}")
        self._finalizer.detach()
        self._producer.close(timeout)
        for name in ("key_serializer", "value_serializer"):
            close = getattr(self.config[name], "close", None)
            if close is not None:
                close()

    def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic. Raise KafkaTimeoutError if they are unknown after `max_block_ms`.

        Raise TypeError or ValueError for a name that no topic may have.
        """
        try:
            return set(self._producer.partitions_for(topic))
        except Exception as error:
            raise refusal(error) from error

    def bootstrap_connected(self) -> bool:
        """Whether a broker has described the cluster."""
        return not (self._producer.is_closed or self._producer.shell.metadata.cluster.is_bootstrap)

    def metrics(self, raw: bool = False) -> Metrics | None:
        """Return totals and gauges under Kafka's names: none after `close`, and None if `metrics_enabled` is false."""
        if not self.config["metrics_enabled"] or self._producer.is_closed:
            return {} if self.config["metrics_enabled"] else None
        found = self._producer.shell.statistics()
        totals = {
            "record-send-total": found.records_sent,
            "record-error-total": found.records_failed,
            "record-retry-total": found.records_retried,
            "batch-split-total": found.batches_split,
            "request-total": found.requests,
            "outgoing-byte-total": found.bytes_sent,
            "buffer-total-bytes": found.buffer_bytes,
            "buffer-available-bytes": found.buffer_available_bytes,
            "waiting-threads": found.waiting,
        }
        return grouped("producer", {"producer-metrics": totals}, self._producer.shell.nodes.in_flight_counts())


class CommittingMember(NamedTuple):
    """The consumer whose offsets are committed, as the transaction manager takes it."""

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None


class PartitionerView:
    """The part of kafka-python's cluster metadata that partitioners use."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def topics(self) -> Collection[str]:
        """Return the names of the known topics."""
        return self._cluster.topics.keys()

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic, or None if it is unknown."""
        found = self._cluster.topics.get(topic)
        return None if found is None else {each.index for each in found.partitions}

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic that have a leader, or None if the topic is unknown."""
        found = self._cluster.topics.get(topic)
        return None if found is None else {each.index for each in found.partitions if each.leader is not None}

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """Return the node id of a partition's leader."""
        return self._cluster.leader(partition)


def serializer_of(name: str, serializer: Any) -> Callable[[str, Any, Any], Any]:
    """Return a serializer as a function of topic, headers and content. A plain callable gets the content, as in
    kafka-python.

    Raise KafkaConfigurationError, which names the argument, for anything else.
    """
    if serializer is None:
        return lambda _topic, _headers, content: content
    if hasattr(serializer, "serialize"):
        return serializer.serialize  # type: ignore[no-any-return]
    if not callable(serializer):
        raise KafkaConfigurationError(f"{name}={serializer!r} is not allowed: pass a function or a Serializer")
    return lambda _topic, _headers, content: serializer(content)


def close_forgotten(producer: ThreadedProducer) -> None:
    """Close a producer without an owner. One that has crashed, or belongs to the parent of a fork, is left alone."""
    with suppress(RuntimeError):
        producer.close(0)


def refusal(error: Exception) -> BaseException:
    """Return the error of kafka-python for an append that failed. An invalid topic is a ValueError there."""
    failure = as_kafka(error)
    return ValueError(str(error)) if isinstance(failure, InvalidTopicError) else failure


def check_headers(headers: Any) -> None:
    """Raise TypeError unless the headers are a list of pairs of text and bytes."""
    if not isinstance(headers, list):
        raise TypeError("headers must be list-type")
    if not all(
        isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str) and isinstance(each[1], bytes)
        for each in headers
    ):
        raise TypeError("All headers items must be (str, bytes) tuples")
