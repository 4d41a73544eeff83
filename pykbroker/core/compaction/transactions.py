"""The transactions that a round of compaction passes, batch by batch in the order of the log (KIP-98)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from pykbroker.core.log.transactions import AbortedTransaction
from wire.records.batch import Batch
from wire.records.control import ControlType, control_records


class PassedTransactions:
    """`aborted`: all that have data at or above the first batch. `kept`: those whose marker must stay, with data seen.

    1. Every batch is shown once: `is_void` for data, `is_spent` for markers.
    2. An aborted transaction counts from its first offset to its marker.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted(aborted, key=lambda one: one.first_offset))
        self._aborting: dict[int, AbortedTransaction] = {}
        self._with_data: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def is_void(self, batch: Batch) -> bool:
        """Whether a data batch is of an aborted transaction."""
        self._advance(batch.last_offset)
        if not batch.is_transactional:
            return False
        self._with_data.add(batch.producer_id)
        return batch.producer_id in self._aborting

    def is_spent(self, batch: Batch) -> bool:
        """Whether a control batch is needed no more: no batch of its transaction was passed. DecodeError: damaged."""
        self._advance(batch.last_offset)
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
        """`kept` since the last call."""
        kept, self.kept = self.kept, []
        return kept

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            one = self._coming.popleft()
            self._aborting.setdefault(one.producer_id, one)
