"""Records encoded from columns, held against records that are encoded one by one and against the reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.records.batch import Batch
from wire.records.builder import BatchBuilder
from wire.records.columns import encode_record, encode_records
from wire.records.record import Headers, records

BYTES = st.binary(max_size=300)
BORDERS = (0, 1, 63, 64, 65, 8191, 8192, 8193, 16383, 16384, 16385, (1 << 20) - 1, 1 << 20, 1 << 27)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)


def singly(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Headers] | None = None,
    delta: int = 0,
    first: int = 0,
) -> bytes:
    keys, headers = keys or [None] * len(values), headers or [()] * len(values)
    rows = zip(keys, values, headers, strict=True)
    return b"".join(encode_record(*row, delta, offset) for offset, row in enumerate(rows, first))


@given(st.data(), st.sampled_from(BORDERS), st.integers(-(1 << 40), 1 << 40))
def test_columns_give_the_bytes_of_single_records(data: st.DataObject, first: int, delta: int) -> None:
    values = data.draw(st.lists(st.none() | BYTES, max_size=200))
    size = len(values)
    keys = data.draw(st.none() | st.lists(st.none() | BYTES, min_size=size, max_size=size))
    headers = data.draw(st.none() | st.lists(HEADERS, min_size=size, max_size=size))
    assert encode_records(values, keys, headers, delta, first) == singly(values, keys, headers, delta, first)


@given(st.lists(BYTES, min_size=1, max_size=200), st.booleans(), st.sampled_from(BORDERS))
def test_columns_without_nulls_give_the_bytes_of_single_records(values: list[bytes], keyed: bool, first: int) -> None:
    keys = values[::-1] if keyed else None
    assert encode_records(values, keys, first=first) == singly(values, keys, first=first)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("keyed", [False, True])
def test_a_run_may_cross_the_length_of_an_offset_delta(border: int, keyed: bool) -> None:
    values, first = [b"value"] * 8, max(0, border - 4)
    keys = [b"key"] * 8 if keyed else None
    assert encode_records(values, keys, first=first) == singly(values, keys, first=first)


@pytest.mark.parametrize("size", [0, 63, 64, 8191, 8192, 16383, 16384, 16385, 1 << 20])
@pytest.mark.parametrize("keyed", [False, True])
def test_a_value_may_have_any_length(size: int, keyed: bool) -> None:
    values = [bytes(size), b"x", bytes(size)]
    keys = values[::-1] if keyed else None
    assert encode_records(values, keys) == singly(values, keys)


def test_no_records_have_no_bytes() -> None:
    assert encode_records([]) == encode_records([], []) == b""


def test_a_batch_of_columns_is_read_as_its_records() -> None:
    values, keys = [bytes([index]) * index for index in range(100)], [b"%d" % index for index in range(100)]
    builder = BatchBuilder(base_timestamp=1000, max_timestamp=1007, count=100)
    builder.payload += encode_records(values[:40], keys[:40], None, 0)
    builder.payload += encode_records(values[40:], keys[40:], None, 7, first=40)
    found = list(records(Batch.read(builder.build()), 1 << 20))
    assert [(record.offset, record.key, record.value) for record in found] == list(
        zip(range(100), keys, values, strict=True)
    )
    assert [record.timestamp for record in found] == [1000] * 40 + [1007] * 60


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_value_may_be_any_buffer(kind: Any) -> None:
    assert encode_records([kind(b"value")], [kind(b"key")]) == singly([b"value"], [b"key"])
