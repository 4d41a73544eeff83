"""Deserializers: they turn the bytes of keys and values into objects for the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trio.lowlevel import disable_ki_protection

from pykbroker.core.consumer.errors import ConsumerError
from pykbroker.core.consumer.records import ConsumerRecord
from pykbroker.core.consumer.unread import Taken
from pykbroker.core.topic_partition import TopicPartition

FromBytes = Callable[[bytes], Any]
"""A function of the bytes of a key or a value. It is not called for None."""


class RecordNotDeserialized(ConsumerError):
    """The error of a record whose deserializer raised an error, which is `__cause__`. Seek past it to continue."""

    def __init__(self, partition: TopicPartition, offset: int, part: str) -> None:
        super().__init__(
            f"the {part} of the record at offset {offset} of {partition} cannot be deserialized; seek past it"
        )
        self.partition, self.offset = partition, offset


class Deserializers:
    """The deserializers of a consumer."""

    def __init__(self, key: FromBytes | None, value: FromBytes | None) -> None:
        self._parts = [(name, each) for name, each in (("key", key), ("value", value)) if each is not None]

    def records(self, taken: Taken) -> tuple[list[ConsumerRecord], Taken]:
        """Return the records of the taken parts as objects, and these parts.

        A record that cannot be deserialized stays with those of its partition behind it, and is not among the parts. If
        there is no other record, raise RecordNotDeserialized.
        """
        found: list[ConsumerRecord] = []
        if not self._parts:
            for part in taken.parts:
                found += part.columns.records()
            return found, taken
        failures: dict[TopicPartition, RecordNotDeserialized] = {}
        for columns in taken.columns:
            for record in columns.records():  # a deserializer is called for each record
                if columns.partition in failures:
                    break
                try:
                    self._deserialize(record)
                except RecordNotDeserialized as error:
                    failures[columns.partition] = error
                else:
                    found.append(record)
        if not found:
            for failure in failures.values():
                raise failure
        return found, taken.until({partition: each.offset for partition, each in failures.items()})

    @disable_ki_protection
    def _deserialize(self, record: ConsumerRecord) -> None:
        for name, deserialize in self._parts:
            data = getattr(record, name)
            if data is None:
                continue
            try:
                setattr(record, name, deserialize(data))
            except Exception as error:
                partition = TopicPartition(record.topic, record.partition)
                raise RecordNotDeserialized(partition, record.offset, name) from error
