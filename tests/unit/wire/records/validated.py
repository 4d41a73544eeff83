"""The validation of a whole batch."""

from __future__ import annotations

from wire.records.batch import Batch
from wire.records.record import content, validate_content


def validated(batch: Batch, bytes_max: int, *, key_required: bool = False) -> tuple[int, int]:
    """Validate every record of a batch, and return the smallest and the largest timestamp."""
    records = content(batch, bytes_max)
    return validate_content(records, batch.count, batch.base_timestamp, key_required, None)
