"""The state of transactions during a compaction round, which reads batches in log order (KIP-98)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from pykbroker.core.log.transactions import AbortedTransaction
from wire.records.batch import Batch
from wire.records.control import ControlType, control_records


class PassedTransactions:
    """The state of transactions at the round's position in the log.

    `aborted` has all aborted transactions with data at or above the first batch. `kept` has the aborted transactions
    whose marker stays and whose data the round has read.

    1. The caller passes every batch once: a data batch to `is_aborted`, a control batch to `is_unneeded`.
    2. A transaction counts as aborted from its first offset to its marker.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted(aborted, key=lambda one: one.first_offset))
        self._aborting: dict[int, AbortedTransaction] = {}
        self._with_data: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def is_aborted(self, batch: Batch) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        self._advance(batch.last_offset)
        if not batch.is_transactional:
            return False
        self._with_data.add(batch.producer_id)
        return batch.producer_id in self._aborting

    def is_unneeded(self, batch: Batch) -> bool:
        """Whether a marker is no longer needed, because the log has no batch of its transaction.

        Raise DecodeError if the marker is corrupt.
        """
        self._advance(batch.last_offset)
        # An earlier compaction may have left the bare header of a marker, which has no record.
        kind = next((record.type for record in control_records(batch)), None)
        if kind not in (ControlType.ABORT, ControlType.COMMIT, None):
            return False
        has_data = batch.producer_id in self._with_data
        if kind is not None:
            self._with_data.discard(batch.producer_id)
            aborted = self._aborting.pop(batch.producer_id, None)
            if aborted is not None and has_data:
                self.kept.append(aborted)
        return kind is None or not has_data

    def take_kept(self) -> list[AbortedTransaction]:
        """Return and clear `kept`."""
        kept, self.kept = self.kept, []
        return kept

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            one = self._coming.popleft()
            self._aborting.setdefault(one.producer_id, one)
