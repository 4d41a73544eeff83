"""Records decoded as columns, compared with records that are decoded one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from wire.errors import DecodeError
from wire.records.batch import HEADER_BYTES, LOG_APPEND_TIME, Batch
from wire.records.builder import BatchBuilder, sealed
from wire.records.column_reader import Columns, read_columns
from wire.records.columns import encode_record, encode_records
from wire.records.compression import Codec
from wire.records.record import Headers, records

BYTES_MAX = 1 << 24
NULLABLE = st.none() | st.binary(max_size=100)
HEADERS = st.lists(st.tuples(st.text(max_size=3), NULLABLE), max_size=2).map(tuple)
Row = tuple[bytes | None, bytes | None, Headers, int]


def batch_of(payload: bytes, count: int, last_delta: int, attributes: int = 0) -> Batch:
    builder = BatchBuilder()
    builder.append(None, b"", (), 1000)
    header = Batch.read(builder.build())
    fields = {"base_offset": 50, "base_timestamp": 1000, "max_timestamp": 5000, "attributes": attributes}
    return Batch.read(sealed(replace(header, count=count, last_offset_delta=last_delta, **fields), payload))


def by_columns(batch: Batch) -> list[tuple[object, ...]]:
    found = read_columns(batch, BYTES_MAX)
    headers = [()] * len(found) if found.headers is None else found.headers
    return list(zip(found.offsets, found.timestamps, found.keys, found.values, headers, strict=True))


def singly(batch: Batch) -> list[tuple[object, ...]]:
    return [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in records(batch, BYTES_MAX)]


def outcome(read: Callable[[Batch], list[tuple[object, ...]]], batch: Batch) -> object:
    try:
        return read(batch)
    except DecodeError:
        return DecodeError


@st.composite
def runs(draw: st.DrawFn) -> tuple[bytes, int, int]:
    """Draw the bytes of records in groups that have equal sizes, with their count and the last offset delta."""
    rows: list[bytes] = []
    delta = draw(st.sampled_from((0, 0, 0, 1, 50, 8150, 16370, 1 << 20)))
    for _ in range(draw(st.integers(1, 6))):
        count, size = draw(st.sampled_from((1, 2, 12, 13, 70, 200))), draw(st.sampled_from((0, 1, 60, 63, 64, 100)))
        key = draw(st.none() | st.binary(max_size=5))
        headers, varies = draw(st.just(()) | HEADERS), draw(st.booleans())
        stamp, step = draw(st.sampled_from((0, 5, -3, 60, 8000, 1 << 33))), draw(st.sampled_from((0, 0, 1, -1, 100)))
        gap = draw(st.sampled_from((1, 1, 1, 2)))
        is_null = draw(st.booleans()) and draw(st.booleans())
        spread = draw(st.sampled_from((1, 1, 3)))
        for index in range(count):
            value = None if is_null else bytes([index & 0xFF]) * (size + index % spread)
            if varies:
                headers = tuple((name, found and bytes([index & 0xFF]) * len(found)) for name, found in headers)
            rows.append(encode_record(key, value, headers, stamp + index * step, delta))
            delta += gap
    return b"".join(rows), len(rows), delta - 1


@given(runs(), st.sampled_from((0, 0, LOG_APPEND_TIME)))
def test_columns_have_the_fields_of_single_records(drawn: tuple[bytes, int, int], attributes: int) -> None:
    batch = batch_of(*drawn, attributes)
    assert by_columns(batch) == singly(batch)


@given(runs(), st.data())
def test_damaged_records_are_refused_or_read_as_single_records_are(
    drawn: tuple[bytes, int, int], data: st.DataObject
) -> None:
    payload, count, last_delta = drawn
    damaged = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.just(0) | st.integers(0, 20))
    batch = batch_of(bytes(damaged[: len(damaged) - cut]), count, last_delta)
    assert outcome(by_columns, batch) == outcome(singly, batch)


HEADED: Headers = (("a", b"x"), ("b", b"yy"))
MIXED: list[tuple[bytes, Headers]] = [
    *((b"", HEADED), (b"a", HEADED), (b"b", ()), (b"c", ())),
    *([(b"d", HEADED)] * 13),
    *([(b"e", ())] * 13),
]


@pytest.mark.parametrize("rows", [MIXED, [(b"", ())] * 3])
def test_each_damaged_byte_is_refused_or_read_as_in_single_records(rows: list[tuple[bytes, Headers]]) -> None:
    payload = b"".join(encode_record(None, *row, 0, delta) for delta, row in enumerate(rows))
    for place in range(len(payload)):
        for byte in (0, 1, 2, 3, 127, 128, 255, payload[place] ^ 128):
            damaged = payload[:place] + bytes([byte]) + payload[place + 1 :]
            batch = batch_of(damaged, len(rows), len(rows) - 1)
            assert outcome(by_columns, batch) == outcome(singly, batch), (place, byte)


@given(st.lists(st.tuples(NULLABLE, NULLABLE, HEADERS, st.integers(-(1 << 40), 1 << 40)), max_size=30))
@example([(None, b"a", (), 0), (b"", None, (("h", None),), 1), (None, b"a", (), 1)])
def test_columns_have_nulls_and_headers_where_the_records_have_them(rows: list[Row]) -> None:
    payload = b"".join(encode_record(*row, delta) for delta, row in enumerate(rows))
    batch = batch_of(payload, len(rows), max(0, len(rows) - 1))
    assert by_columns(batch) == singly(batch)


@pytest.mark.parametrize("step", [0, 1])
def test_headers_of_any_layout_are_read(step: int) -> None:
    """Records of equal and of unlike sizes have headers like those before, and then others."""
    rows: list[Headers] = [(("trace", b"%06d" % index), ("kind", b"order"), ("none", None)) for index in range(300)]
    rows += [(("trace", b"%06d" % index), ("kind", b"order")) for index in range(300)]
    rows += [(("Trace", b"%06d" % index), ("kind", b"order")) for index in range(300)]
    rows += [(), *([(("k", bytes(300)),)] * 20), *([tuple((str(index), b"") for index in range(20))] * 20)]
    payload = b"".join(encode_record(None, bytes(step * delta % 7), row, 5, delta) for delta, row in enumerate(rows))
    batch = batch_of(payload, len(rows), len(rows) - 1)
    assert read_columns(batch, BYTES_MAX).headers == rows
    assert by_columns(batch) == singly(batch)


@given(st.lists(st.integers(0, 80) | st.integers(8180, 8200), min_size=1, max_size=300))
def test_columns_of_encoded_columns_are_the_same_columns(sizes: list[int]) -> None:
    values = [bytes([index & 0xFF]) * size for index, size in enumerate(sizes)]
    found = read_columns(batch_of(encode_records(values, timestamp_delta=7), len(values), len(values) - 1), BYTES_MAX)
    assert (found.values, found.keys, found.headers) == (values, [None] * len(values), None)
    assert found.offsets == list(range(50, 50 + len(values)))
    assert found.timestamps == [1007] * len(values)


@pytest.mark.parametrize("codec", Codec)
def test_compressed_records_are_read_as_columns(codec: Codec) -> None:
    builder = BatchBuilder(codec)
    for index in range(100):
        builder.append(b"k%d" % index, b"value", (), 1000 + index)
    batch = Batch.read(builder.build())
    assert by_columns(batch) == singly(batch)


def test_a_batch_without_records_has_empty_columns() -> None:
    batch = batch_of(b"", 0, 9)
    assert batch.size == HEADER_BYTES
    assert read_columns(batch, BYTES_MAX) == Columns([], [], [], [])


def test_bytes_after_the_last_record_are_refused() -> None:
    with pytest.raises(DecodeError, match="1 bytes after 20 records"):
        read_columns(batch_of(encode_records([b"value"] * 20) + b"\0", 20, 19), BYTES_MAX)


def test_a_slice_of_columns_has_the_records_between_two_indexes() -> None:
    columns = Columns([5, 6, 7], [1, 2, 3], [None] * 3, [b"a", b"b", b"c"], [(), (("h", b"1"),), ()])
    assert columns.slice(1, 3) == Columns([6, 7], [2, 3], [None] * 2, [b"b", b"c"], [(("h", b"1"),), ()])


def test_a_record_after_the_last_offset_of_its_batch_is_refused() -> None:
    values = [bytes(index) for index in range(30)]
    with pytest.raises(DecodeError, match="offset delta 20"):
        read_columns(batch_of(encode_records(values), 30, 19), BYTES_MAX)


@given(st.lists(st.tuples(st.integers(0, 70), st.integers(0, 5)), min_size=100, max_size=400))
def test_values_of_unlike_sizes_and_times_are_read_as_single_records_are(rows: list[tuple[int, int]]) -> None:
    stamp, parts = 0, []
    for delta, (size, step) in enumerate(rows):
        stamp += step // 5
        parts.append(encode_record(None, bytes(size), (), stamp, delta))
    batch = batch_of(b"".join(parts), len(rows), len(rows) - 1)
    assert by_columns(batch) == singly(batch)
