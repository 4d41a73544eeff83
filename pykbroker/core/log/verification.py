"""What stands between a transactional producer's first batch in a log and the log: the coordinator's word (KIP-890).

A leader asks the coordinator whether its partition takes part in the transaction before it writes the first batch of
it. Between question and write the transaction may end, and a batch written then would leave the log with a transaction
that nobody ever ends. So the question leaves an object here, which the write must show; a marker takes it away, and
one of a later question is another object.
"""

from __future__ import annotations


class Verification:
    """A producer that waits to begin a transaction here. `lowest_sequence` is what it may begin with.

    `from_zero`: it may begin with nothing but 0 if it is not known here.
    """

    __slots__ = ("began_ms", "epoch", "from_zero", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, began_ms: int, *, from_zero: bool = False) -> None:
        self.epoch, self.lowest_sequence, self.began_ms = epoch, sequence, began_ms
        self.from_zero = from_zero

    def hear(self, epoch: int, sequence: int) -> None:
        """Another batch wants to be the first. A later one must not get in front of one that is tried again."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class Verifications:
    """Those of one log, by producer id. They are forgotten with a restart: the batch is then sent again."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, from_zero: bool) -> Verification:
        """Ask now; batches that come together share one verification."""
        known = self._by_producer.get(producer_id)
        if known is None:
            known = self._by_producer[producer_id] = Verification(epoch, sequence, now_ms, from_zero=from_zero)
        known.hear(epoch, sequence)
        return known

    def get(self, producer_id: int) -> Verification | None:
        """What this producer's first batch must show."""
        return self._by_producer.get(producer_id)

    def end(self, producer_id: int) -> None:
        """The transaction has begun here, or ended."""
        self._by_producer.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget whoever asked and never wrote."""
        self._by_producer = {
            producer_id: one for producer_id, one in self._by_producer.items() if now_ms - one.began_ms < expiration_ms
        }
