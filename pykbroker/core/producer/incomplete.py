"""The batches with records whose outcome is unknown, and the return of their memory."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.producer.batch import BatchOutcome, ProducerBatch
from pykbroker.core.producer.buffer_pool import BufferPool


class IncompleteBatches:
    """All batches that hold memory of the pool, in the order in which they were opened."""

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._batches: dict[ProducerBatch, None] = {}
        self._settled: list[ProducerBatch] = []
        """The batches whose waiters are not called yet."""

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batch: ProducerBatch) -> None:
        """Add a batch, whose `reserved` bytes come from the pool."""
        self._batches[batch] = None

    def discard(self, batch: ProducerBatch) -> None:
        """Forget a batch without records. Its memory is not returned."""
        self._batches.pop(batch, None)

    def reserved(self) -> int:
        """Return the bytes that all batches hold."""
        return sum(batch.reserved for batch in self._batches)

    def batches(self) -> list[ProducerBatch]:
        """Return all batches, also those in flight."""
        return list(self._batches)

    def settle(self, batch: ProducerBatch, outcome: BatchOutcome) -> None:
        """Set the outcome of a batch, unless it has one, and return its memory."""
        self.settle_in_flight(batch, outcome)
        self.release(batch)

    def settle_in_flight(self, batch: ProducerBatch, outcome: BatchOutcome) -> None:
        """Set the outcome of a batch whose bytes are still being sent, so that its memory is not free yet."""
        if batch.settle(outcome):
            self._settled.append(batch)

    def settle_all(self, outcome: BatchOutcome) -> None:
        """Set the outcome of all batches that have none. Their memory is not returned."""
        for batch in self._batches:
            for part in batch.unsettled():
                self.settle_in_flight(part, outcome)

    def release(self, batch: ProducerBatch) -> None:
        """Return the memory of a settled batch once, and that of a batch that it completes."""
        if batch.is_settled and batch in self._batches:
            del self._batches[batch]
            self._pool.give_back(batch.reserved)
        if batch.parent is not None:
            self.release(batch.parent)

    def take_waiters(self) -> list[Callable[[], None]]:
        """Return the callbacks of all batches that were settled since the last call. Call them without the lock."""
        settled, self._settled = self._settled, []
        return [waiter for batch in settled for waiter in batch.take_waiters()]
