"""The filter of read_committed: it removes the records of aborted transactions from a Fetch response.

The response names the first offset of each aborted transaction. The transaction ends at the producer's next marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wire.messages.fetch import AbortedTransaction
from wire.records.batch import Batch
from wire.records.control import ControlType, control_records


def visible(found: Iterable[Batch], aborted: Iterable[AbortedTransaction]) -> Iterator[Batch]:
    """Yield the data batches that belong to no aborted transaction."""
    waiting = sorted(aborted, key=lambda one: one.first_offset)
    void: set[int] = set()
    for batch in found:
        while waiting and waiting[0].first_offset <= batch.last_offset:
            void.add(waiting.pop(0).producer_id)
        if batch.is_control:
            (marker,) = control_records(batch)
            if marker.type == ControlType.ABORT:
                void.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in void):
            yield batch
