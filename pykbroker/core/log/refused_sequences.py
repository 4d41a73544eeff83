"""The sequences that were refused before the append, so that what follows them is repeated with them.

A producer sends up to five batches of a partition at once. If the first is refused with an error that asks for its
repetition, such as NOT_ENOUGH_REPLICAS, and the next one could be appended, the next one is out of order: the first is
missing. librdkafka answers OUT_OF_ORDER_SEQUENCE_NUMBER with a new producer epoch, in which it sends batches of all
partitions again whose responses it has not seen. The log then has the batches twice that it had already. A batch that
follows a refused one therefore gets the error of the refused one, and the producer repeats both in their order.

1. The lowest refused sequence of each producer is remembered, until a batch of a newer epoch is refused or the producer
   expires. It has no effect on batches of another epoch. A restart loses it, and with it the connections on which the
   following batches could come.
2. A write does not touch this memory. Whether the refused sequence has been written since then is decided by the
   sequence that the log expects, when a batch is out of order or its producer is unknown.
3. The number of producers is limited for each partition and for all partitions of a broker. The oldest is forgotten
   first.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.sequence_numbers import is_before
from wire.error_codes import ErrorCode

PRODUCERS_MAX = 10_000
"""The number of producers whose refused sequences are remembered in one partition."""
REFUSALS_MAX = 100_000
"""The number of refused sequences that are remembered in all partitions of a broker, in about 18 MB."""
REPEATED = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""The errors of a batch that was not appended and that its producer repeats."""


class LowestRefused(msgspec.Struct, gc=False):
    """The lowest refused sequence of a producer epoch, its error, and the time of the last refusal."""

    epoch: int
    sequence: int
    code: ErrorCode
    refused_ms: int


class RefusalLimit:
    """The limit for all partitions of a broker. Beyond it, the partition that refused first forgets its oldest."""

    __slots__ = ("_max", "_partitions", "count")

    def __init__(self, refusals_max: int = REFUSALS_MAX) -> None:
        self._max, self.count = refusals_max, 0
        self._partitions: dict[RefusedSequences, None] = {}

    def add(self, partition: RefusedSequences) -> None:
        """Count one refusal more, and forget another one if there are too many."""
        self._partitions[partition] = None
        self.count += 1
        if self.count > self._max:
            next(iter(self._partitions)).forget_oldest()

    def remove(self, partition: RefusedSequences, count: int) -> None:
        """Count fewer refusals of a partition."""
        self.count -= count
        if not partition:
            self._partitions.pop(partition, None)


class RefusedSequences:
    """The lowest refused sequence of each producer in one partition."""

    __slots__ = ("_by_producer", "_limit")

    def __init__(self, limit: RefusalLimit) -> None:
        self._by_producer: dict[int, LowestRefused] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self._by_producer)

    def note(
        self, producer_id: int, epoch: int, sequence: int, code: ErrorCode, expected: int | None, now_ms: int
    ) -> None:
        """Remember a batch that was refused with `code`, one of `REPEATED`.

        `expected` is the sequence that the log expects of this producer epoch, None if it is unknown.
        """
        known = self._by_producer.get(producer_id)
        if is_written(sequence, expected):
            return  # a batch that was repeated because its response was lost
        if known is not None and known.epoch == epoch and not is_written(known.sequence, expected):
            if not is_before(known.sequence, sequence):
                known.sequence, known.code, known.refused_ms = sequence, code, now_ms
        elif known is None or known.epoch <= epoch:
            # A producer that is known moves to the end of the order in which the oldest ones are forgotten.
            self._forget(producer_id)
            if len(self._by_producer) >= PRODUCERS_MAX:
                self.forget_oldest()
            self._by_producer[producer_id] = LowestRefused(epoch, sequence, code, now_ms)
            self._limit.add(self)

    def check(self, producer_id: int, epoch: int, sequence: int, expected: int | None) -> None:
        """Raise ApiError with the code of the refused batch if this one follows a refused one.

        `expected` is the sequence that the log expects of this producer epoch, None if the log has no batch of the
        producer.
        """
        refused = self._by_producer.get(producer_id)
        if (
            refused is not None
            and refused.epoch == epoch
            and is_before(refused.sequence, sequence)
            and not is_written(refused.sequence, expected)
        ):
            raise ApiError(
                refused.code,
                f"producer {producer_id} in epoch {epoch}: sequence {sequence} came before {refused.sequence}, "
                f"which was refused with {refused.code.name}",
            )

    def expire(self, now_ms: int, expiration_ms: int, producers: Container[int]) -> None:
        """Forget these producers, whose state has expired, and all that were refused before `expiration_ms`."""
        for producer_id, refused in list(self._by_producer.items()):
            if producer_id in producers or now_ms - refused.refused_ms >= expiration_ms:
                self._forget(producer_id)

    def forget_oldest(self) -> None:
        """Forget the producer that was refused first."""
        self._forget(next(iter(self._by_producer)))

    def clear(self) -> None:
        """Forget all producers, because the log lost its records or the partition is deleted."""
        count = len(self._by_producer)
        self._by_producer.clear()
        self._limit.remove(self, count)

    def _forget(self, producer_id: int) -> None:
        if self._by_producer.pop(producer_id, None) is not None:
            self._limit.remove(self, 1)


def is_written(sequence: int, expected: int | None) -> bool:
    """Whether the log has this sequence of a producer of which it expects `expected` next."""
    return expected is not None and is_before(sequence, expected)
