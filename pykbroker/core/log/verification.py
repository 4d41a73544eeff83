"""Verification of a transactional producer's first batch in a log (KIP-890).

Before a leader writes the first batch of a transaction, it asks the coordinator whether the partition is part of the
transaction. The transaction may end between the request and the write; a batch that is written then would open a
transaction that never ends. The request therefore leaves a `Verification` in the log's state, and the write must
present the same object. The marker that ends the transaction removes it, and a later request creates another object.

A verification may also wait while the marker of the producer's previous transaction arrives, since from transaction
version 2 on a client begins the next transaction before that marker is written. Such a marker must not remove the
verification.
"""

from __future__ import annotations


class Verification:
    """A producer's pending request to the coordinator. The first batch may start at `lowest_sequence` at most.

    With `from_zero`, a producer that is unknown in this log must start with sequence 0.
    """

    __slots__ = ("began_ms", "epoch", "from_zero", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, began_ms: int, *, from_zero: bool = False) -> None:
        self.epoch, self.lowest_sequence, self.began_ms = epoch, sequence, began_ms
        self.from_zero = from_zero

    def add_batch(self, epoch: int, sequence: int) -> None:
        """Note another batch that may become the first.

        A later batch must not be written before the retry of an earlier one.
        """
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class Verifications:
    """The pending verifications of one log by producer id. A restart loses them; producers then repeat the batch."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, from_zero: bool) -> Verification:
        """Return the producer's pending verification, or create one. Batches that arrive together share it."""
        known = self._by_producer.get(producer_id)
        if known is None:
            known = self._by_producer[producer_id] = Verification(epoch, sequence, now_ms, from_zero=from_zero)
        known.add_batch(epoch, sequence)
        return known

    def get(self, producer_id: int) -> Verification | None:
        """Return the verification that the producer's first batch must present, or None."""
        return self._by_producer.get(producer_id)

    def end(self, producer_id: int, epoch: int) -> None:
        """Remove the producer's verification, because its transaction of this epoch has begun in this log or has ended.

        A verification that already waits for a transaction of a later epoch stays.
        """
        known = self._by_producer.get(producer_id)
        if known is not None and known.epoch <= epoch:
            del self._by_producer[producer_id]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove verifications that are older than `expiration_ms`."""
        self._by_producer = {
            producer_id: one for producer_id, one in self._by_producer.items() if now_ms - one.began_ms < expiration_ms
        }
