"""Verification of a transactional producer's first batch in a log (KIP-890).

Before a leader writes the first batch of a transaction, it asks the coordinator whether its partition is part of the
transaction. The transaction may end between the question and the write; a batch written then would open a transaction
that is never ended. The question therefore leaves a `Verification` here, and the write must present the same object. A
marker removes it, and a later question creates another object.
"""

from __future__ import annotations


class Verification:
    """A producer's pending question to the coordinator. The first batch may start at `lowest_sequence` at most.

    `from_zero`: a producer that is unknown here must start with sequence 0.
    """

    __slots__ = ("began_ms", "epoch", "from_zero", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, began_ms: int, *, from_zero: bool = False) -> None:
        self.epoch, self.lowest_sequence, self.began_ms = epoch, sequence, began_ms
        self.from_zero = from_zero

    def add_batch(self, epoch: int, sequence: int) -> None:
        """Note another batch that may become the first. A later batch must not overtake an earlier one's retry."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class Verifications:
    """The pending verifications of one log by producer id.

    They are lost in a restart; producers then send the batch again.
    """

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, from_zero: bool) -> Verification:
        """Return the producer's verification, or create it. Batches that arrive together share one."""
        known = self._by_producer.get(producer_id)
        if known is None:
            known = self._by_producer[producer_id] = Verification(epoch, sequence, now_ms, from_zero=from_zero)
        known.add_batch(epoch, sequence)
        return known

    def get(self, producer_id: int) -> Verification | None:
        """Return the verification that this producer's first batch must present."""
        return self._by_producer.get(producer_id)

    def end(self, producer_id: int) -> None:
        """Remove the producer's verification: its transaction has begun in this log, or ended."""
        self._by_producer.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove verifications that are older than `expiration_ms`."""
        self._by_producer = {
            producer_id: one for producer_id, one in self._by_producer.items() if now_ms - one.began_ms < expiration_ms
        }
