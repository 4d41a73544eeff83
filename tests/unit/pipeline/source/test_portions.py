"""The division of fetched records into Arrow batches of bounded size, and the bound of a column."""

from __future__ import annotations

import numpy as np
import pytest

from pykbroker.core.consumer.records import FetchedColumns, ReadRecords
from pykbroker.pipeline.source.column_buffers import COLUMN_BYTES_MAX, offsets_of
from pykbroker.pipeline.source.portions import PORTION_BYTES_MAX, portions
from tests.unit.pipeline.source.test_record_batches import (
    EQUAL,
    READERS,
    UNEQUAL,
    WITH_HEADERS,
    Record,
    expected,
    fetched,
)
from wire.records.column_reader import read_columns


def sizes_of(parts: list[list[FetchedColumns]]) -> list[int]:
    return [sum(len(part) for part in portion) for portion in parts]


@READERS
def test_portions_have_the_records_in_order_and_within_the_bound(reads: ReadRecords) -> None:
    parts = [fetched(records, reads) for records in (EQUAL, UNEQUAL, WITH_HEADERS, EQUAL)]
    rows = [row for part in parts for row in expected(part, has_headers=True)]
    for bytes_max in (1, 100, 1000, 10_000, 1 << 20):
        found = list(portions(parts, bytes_max))
        assert [row for portion in found for part in portion for row in expected(part, has_headers=True)] == rows
        for portion in found:
            content = sum(
                len(record.key or b"")
                + len(record.value or b"")
                + sum(len(key.encode()) + len(value or b"") for key, value in record.headers)
                for part in portion
                for record in part.records()
            )
            assert content <= bytes_max or sizes_of([portion]) == [1]


@pytest.mark.parametrize(("more", "sizes"), [(-1, [2, 2]), (0, [2, 2]), (1, [1, 1, 1, 1])])
def test_a_portion_ends_at_its_bound(more: int, sizes: list[int]) -> None:
    records: list[Record] = [(None, b"v" * 500, ())] * 2
    parts = [fetched(records, read_columns)] * 2
    assert sizes_of(list(portions(parts, 1000 - more))) == sizes


def test_a_larger_record_is_alone() -> None:
    records: list[Record] = [(b"k", b"small", ()), (b"k", b"x" * 3000, ()), (b"k", b"small", ()), (b"k", b"small", ())]
    assert sizes_of(list(portions([fetched(records, read_columns)], 1000))) == [1, 1, 2]


def test_compressed_values_of_8_mib_become_batches_of_32_mib() -> None:
    value = b"x" * (8 << 20)
    parts = [fetched([(None, value, ())], read_columns) for _ in range(9)]
    found = sizes_of(list(portions(parts)))
    assert (PORTION_BYTES_MAX, found) == (4 * len(value), [3, 3, 3])  # a batch also has the lengths of its fields


@pytest.mark.parametrize("more", [-1, 0])
def test_a_column_has_offsets_up_to_the_bound(more: int) -> None:
    assert offsets_of(np.array([COLUMN_BYTES_MAX + more, 0], np.int32))[-1] == COLUMN_BYTES_MAX + more


def test_a_column_beyond_the_bound_is_refused() -> None:
    with pytest.raises(OverflowError, match="2147483648 bytes"):
        offsets_of(np.array([COLUMN_BYTES_MAX, 1], np.int32))
