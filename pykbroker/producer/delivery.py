"""The delivery of a record: its batch and its place there, which can be awaited or dropped."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import trio

from pykbroker.core.producer.batch import ProducerBatch


class RecordMetadata(NamedTuple):
    """The place where a record was written. `timestamp` is in ms since 1970. With acks=0, the offset is -1."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Delivery:
    """A record that was handed to the producer. Awaiting it returns its RecordMetadata, or raises the record's error.

    It may be awaited by several tasks of the producer's trio loop, or by none.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch, self._index = batch, index

    @property
    def is_done(self) -> bool:
        """Whether the record is written or has failed."""
        return self._batch.is_settled

    @property
    def partition(self) -> int:
        """Return the partition that the record goes to."""
        return self._batch.partition.partition

    def result(self) -> RecordMetadata:
        """Return where the record was written, once `is_done` is true. Raise its error if it was not written."""
        topic, partition = self._batch.partition
        return RecordMetadata(topic, partition, *self._batch.result_of(self._index))

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        return self._wait().__await__()

    async def _wait(self) -> RecordMetadata:
        await wait_settled(self._batch)
        return self.result()


async def wait_settled(batch: ProducerBatch) -> None:
    """Wait until the outcome of a batch is known."""
    if batch.is_settled:
        await trio.lowlevel.checkpoint()
        return
    settled = trio.Event()
    batch.when_settled(settled.set)
    await settled.wait()
