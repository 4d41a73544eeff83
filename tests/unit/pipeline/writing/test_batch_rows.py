"""The rows of Arrow batches by the size of records."""

from __future__ import annotations

import pytest

from pykbroker.pipeline.writing.batch_rows import batch_rows


@pytest.mark.parametrize(
    ("value_bytes", "rows"), [(0, 10_000), (100, 10_000), (4096, 4096), (1 << 20, 16), (100 << 20, 16)]
)
def test_a_batch_of_large_records_has_few_rows(value_bytes: int, rows: int) -> None:
    assert batch_rows(value_bytes) == rows
