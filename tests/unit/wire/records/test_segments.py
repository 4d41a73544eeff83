"""Records in segments, compared with the same records as columns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.wire.records.test_column_reader import BYTES_MAX, batch_of, runs
from wire.errors import DecodeError
from wire.records.batch import LOG_APPEND_TIME, Batch
from wire.records.builder import BatchBuilder, sealed
from wire.records.column_reader import read_columns
from wire.records.columns import encode_records
from wire.records.segments import RunSegment, read_segments

VALUES = [b"%04d" % index for index in range(200)]


def rows(found: Any) -> list[tuple[object, ...]]:
    headers = [()] * len(found) if found.headers is None else found.headers
    return list(zip(found.offsets, found.timestamps, found.keys, found.values, headers, strict=True))


@given(runs(), st.sampled_from((0, 0, LOG_APPEND_TIME)))
def test_segments_have_the_records_of_columns(drawn: tuple[bytes, int, int], attributes: int) -> None:
    batch = batch_of(*drawn, attributes)
    assert rows(read_segments(batch, BYTES_MAX)) == rows(read_columns(batch, BYTES_MAX))


@given(runs(), st.data())
def test_slices_have_the_records_of_sliced_columns(drawn: tuple[bytes, int, int], data: st.DataObject) -> None:
    batch = batch_of(*drawn)
    start = data.draw(st.integers(0, batch.count - 1))
    end = data.draw(st.integers(start + 1, batch.count))
    found, columns = read_segments(batch, BYTES_MAX), read_columns(batch, BYTES_MAX)
    part = found.slice(start, end)
    assert rows(part) == rows(columns)[start:end]
    assert (part.offsets[0], part.offsets[-1]) == (columns.offsets[start], columns.offsets[end - 1])


def test_records_of_equal_shape_stay_bytes() -> None:
    found = read_segments(batch_of(encode_records(VALUES), len(VALUES), len(VALUES) - 1), BYTES_MAX)
    in_runs = sum(len(each) for each in found.segments if isinstance(each, RunSegment))
    assert in_runs > 0.9 * len(VALUES)
    assert found.values == VALUES


def test_an_offset_behind_the_last_record_is_no_index() -> None:
    found = read_segments(batch_of(encode_records(VALUES), len(VALUES), len(VALUES) - 1), BYTES_MAX)
    assert found.offsets[1:3] == [51, 52]
    with pytest.raises(IndexError):
        found.offsets[len(VALUES)]


def test_a_batch_without_records_has_no_segment() -> None:
    builder = BatchBuilder()
    builder.append(None, b"", (), 1000)
    header = Batch.read(builder.build())
    assert read_segments(Batch.read(sealed(replace(header, count=0), b"")), BYTES_MAX).segments == []


def test_bytes_after_the_last_record_are_refused() -> None:
    with pytest.raises(DecodeError, match="1 bytes after 200 records"):
        read_segments(batch_of(encode_records(VALUES) + b"\0", len(VALUES), len(VALUES) - 1), BYTES_MAX)
