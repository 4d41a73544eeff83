"""The records of kafka-python's consumer, made from columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

from pykbroker.core.consumer.records import FetchedColumns
from pykbroker.core.consumer.unread import Taken
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka.errors import KafkaConfigurationError
from pykbroker.kafka.structs import KafkaRecord
from wire.records.record import Headers

Deserialize = Callable[[str, Any, bytes | None], Any]
make_record: Callable[[tuple[Any, ...]], KafkaRecord] = partial(tuple.__new__, KafkaRecord)
"""KafkaRecord._make without its Python frame, which takes a third of the time of a record."""


def deserializer_of(name: str, deserializer: Any) -> Deserialize | None:
    """Return a function of topic, headers and bytes. A plain callable gets the bytes, as in kafka-python.

    Raise KafkaConfigurationError, which names the argument, for anything else.
    """
    if deserializer is None:
        return None
    if hasattr(deserializer, "deserialize"):
        return deserializer.deserialize  # type: ignore[no-any-return]
    if not callable(deserializer):
        raise KafkaConfigurationError(f"{name}={deserializer!r} is not allowed: pass a function or a Deserializer")
    return lambda _topic, _headers, content: deserializer(content)


class RecordReader:
    """The deserializers of a consumer."""

    def __init__(self, key: Any, value: Any) -> None:
        self._key, self._value = deserializer_of("key_deserializer", key), deserializer_of("value_deserializer", value)

    def by_partition(self, taken: Taken) -> tuple[dict[TopicPartition, list[KafkaRecord]], Taken]:
        """Return the records of each partition, and their parts.

        The error of a deserializer is raised if no other record is there. Until then, and after a seek past the record,
        the records before it are returned.
        """
        found: dict[TopicPartition, list[KafkaRecord]] = {}
        failures: dict[TopicPartition, Exception] = {}
        failed_at: dict[TopicPartition, int] = {}
        for part in taken.columns:
            if part.partition in failures:
                continue
            records = plain_records(part)
            if self._key is not None or self._value is not None:
                try:
                    self._deserialize(records)
                except Exception as error:  # noqa: BLE001 - it is raised when it is the turn of the record
                    failures[part.partition] = error
                    failed_at[part.partition] = part.offsets[len(records)]
            if records:
                found.setdefault(part.partition, []).extend(records)
        if not found:
            for failure in failures.values():
                raise failure
        return found, taken.until(failed_at)

    def _deserialize(self, records: list[KafkaRecord]) -> None:
        """Deserialize records in their list. At an error, shorten the list to those before it, and raise the error."""
        key, value = self._key, self._value
        for index, record in enumerate(records):  # a deserializer is called for each record
            try:
                if key is not None:
                    record = record._replace(key=key(record.topic, record.headers, record.key))
                if value is not None:
                    record = record._replace(value=value(record.topic, record.headers, record.value))
            except Exception:
                del records[index:]
                raise
            records[index] = record


def plain_records(part: FetchedColumns) -> list[KafkaRecord]:
    """Return the records of a part with keys and values as bytes. The loop over the records runs in C, nearly."""
    topic, index = part.partition
    count = len(part)
    headers = [[] for _ in range(count)] if part.headers is None else [list(each) for each in part.headers]
    rows = zip(
        repeat(topic, count),
        repeat(index),
        repeat(part.leader_epoch),
        part.offsets,
        part.timestamps,
        repeat(part.timestamp_type),
        part.keys,
        part.values,
        headers,
        repeat(None),
        sizes(part.keys),
        sizes(part.values),
        repeat(-1) if part.headers is None else map(headers_size, part.headers),
        strict=False,
    )
    return list(map(make_record, rows))


def sizes(column: Sequence[bytes | None]) -> list[int]:
    """Return the sizes of keys or values, -1 for None."""
    try:
        return list(map(len, column))  # type: ignore[arg-type]
    except TypeError:
        if not any(column) and column.count(None) == len(column):  # as the keys of most topics without keys
            return [-1] * len(column)
        return [-1 if content is None else len(content) for content in column]


def headers_size(headers: Headers) -> int:
    """Return the size of names and contents, or -1 if there are no headers."""
    return sum(len(name.encode()) + len(content or b"") for name, content in headers) if headers else -1
