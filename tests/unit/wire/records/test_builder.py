"""Tests of the batch builder: headers, encoding and decoding, limits, and rewritten batches."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.records.validated import validated
from wire.errors import DecodeError, EncodeError
from wire.records.batch import Batch, batches
from wire.records.builder import BatchBuilder, recompress, sealed, stamped
from wire.records.compression import Codec, TooLarge
from wire.records.record import Record, records

MIB = 1 << 20

maybe_bytes = st.none() | st.binary(max_size=100)
headers = st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=4).map(tuple)
timestamps = st.integers(-1, 2**62)
content = st.lists(st.tuples(maybe_bytes, maybe_bytes, headers, timestamps), min_size=1, max_size=20)


def filled(**fields: Any) -> BatchBuilder:
    """Return a builder with three records whose timestamps are 100, 90 and 300 ms."""
    builder = BatchBuilder(**fields)
    for key, timestamp in ((b"a", 100), (b"b", 90), (b"c", 300)):
        builder.append(key, b"value " * 50, (), timestamp)
    return builder


@pytest.mark.parametrize("codec", Codec)
@given(content=content, base_offset=st.integers(0, 2**62))
def test_a_built_batch_decodes_to_the_appended_records(
    codec: Codec, content: list[tuple[Any, ...]], base_offset: int
) -> None:
    made = [
        Record(base_offset + index, timestamp, key, value, headers)
        for index, (key, value, headers, timestamp) in enumerate(content)
    ]
    builder = BatchBuilder(codec, base_offset=base_offset)
    for key, value, headers, timestamp in content:
        builder.append(key, value, headers, timestamp)
    batch = Batch.read(builder.build())
    assert batch.crc_ok()
    assert list(records(batch, MIB)) == made
    times = [record.timestamp for record in made]
    assert validated(batch, MIB) == (min(times), max(times))
    assert (batch.base_timestamp, batch.max_timestamp) == (times[0], max(times))
    assert (batch.base_offset, batch.last_offset, batch.count) == (base_offset, made[-1].offset, len(made))


def test_the_default_header_is_that_of_a_producer_without_id() -> None:
    batch = Batch.read(filled().build())
    assert (batch.base_offset, batch.leader_epoch, batch.attributes) == (0, -1, 0)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert (batch.base_timestamp, batch.max_timestamp, batch.count, batch.last_offset_delta) == (100, 300, 3, 2)


def test_every_field_of_the_header_is_encoded() -> None:
    builder = filled(
        codec=Codec.ZSTD,
        base_offset=7,
        leader_epoch=5,
        producer_id=2**40,
        producer_epoch=9,
        base_sequence=2**31 - 1,
        transactional=True,
        control=True,
        base_timestamp=50,
    )
    batch = Batch.read(builder.build())
    assert (batch.base_offset, batch.leader_epoch, batch.codec) == (7, 5, Codec.ZSTD)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (2**40, 9, 2**31 - 1)
    assert (batch.is_transactional, batch.is_control, batch.is_log_append_time) == (True, True, False)
    assert batch.base_timestamp == 50
    assert [record.timestamp for record in records(batch, MIB)] == [100, 90, 300]


def test_producer_and_sequence_may_be_set_before_the_batch_is_built() -> None:
    builder = filled()
    builder.producer_id, builder.producer_epoch, builder.base_sequence = 4, 1, 30
    batch = Batch.read(builder.build())
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4, 1, 30)


def test_log_append_time_is_set_in_the_header() -> None:
    batch = Batch.read(filled(append_time=777).build())
    assert (batch.is_log_append_time, batch.base_timestamp, batch.max_timestamp) == (True, 100, 777)
    assert [record.timestamp for record in records(batch, MIB)] == [777] * 3


def test_the_builder_reports_the_size_of_the_uncompressed_batch() -> None:
    builder = BatchBuilder()
    for n in range(300):
        assert builder.size == 61 + len(builder.payload)
        builder.append(b"k", b"v" * n, (("h", b""),), n)
    assert builder.size == len(builder.build())


def test_keys_and_values_may_be_any_buffer() -> None:
    builder = BatchBuilder()
    builder.append(bytearray(b"key"), memoryview(b"value"), (), 1)
    assert list(records(Batch.read(builder.build()), MIB)) == [Record(0, 1, b"key", b"value")]


def test_a_batch_may_have_many_records() -> None:
    builder = BatchBuilder()
    for n in range(20_000):
        builder.append(None, b"%d" % n, (), n * 100)
    batch = Batch.read(builder.build())
    assert [(record.offset, record.timestamp, record.value) for record in records(batch, MIB)] == [
        (n, n * 100, b"%d" % n) for n in range(20_000)
    ]


def test_an_empty_batch_is_not_built() -> None:
    with pytest.raises(EncodeError):
        BatchBuilder().build()


@pytest.mark.parametrize(
    "fields",
    [
        {"producer_id": 2**63},
        {"producer_epoch": 40_000},
        {"base_sequence": 2**31},
        {"base_offset": -(2**63) - 1},
        {"leader_epoch": 2**31},
        {"append_time": 2**63},
    ],
)
def test_fields_out_of_range_are_encode_errors(fields: dict[str, int]) -> None:
    with pytest.raises(EncodeError, match="header"):
        filled(**fields).build()


@pytest.mark.parametrize("before", Codec)
@pytest.mark.parametrize("after", Codec)
def test_recompress_changes_the_codec_and_keeps_the_records(before: Codec, after: Codec) -> None:
    original = Batch.read(
        filled(
            codec=before,
            base_offset=5,
            leader_epoch=2,
            producer_id=8,
            producer_epoch=1,
            base_sequence=10,
            transactional=True,
        ).build()
    )
    batch = Batch.read(recompress(original, after, None, MIB))
    assert batch.crc_ok()
    assert batch.codec is after
    assert list(records(batch, MIB)) == list(records(original, MIB))
    kept = (
        "base_offset",
        "leader_epoch",
        "last_offset_delta",
        "base_timestamp",
        "max_timestamp",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "count",
        "is_transactional",
    )
    assert [getattr(batch, name) for name in kept] == [getattr(original, name) for name in kept]


def test_recompressing_a_batch_in_its_own_codec_returns_it_unchanged() -> None:
    batch = Batch.read(filled(codec=Codec.GZIP).build())
    assert recompress(batch, Codec.GZIP, 9, 0) is batch.buffer


def test_recompress_obeys_a_compression_level_and_a_size_limit() -> None:
    builder = BatchBuilder(Codec.LZ4)
    for n in range(2000):
        builder.append(b"%d" % n, b'{"id":%d,"name":"user-%d"}' % (n, n * 7919 % 1007), (), n)
    batch = Batch.read(builder.build())
    assert len(recompress(batch, Codec.GZIP, 9, MIB)) < len(recompress(batch, Codec.GZIP, 1, MIB))
    with pytest.raises(TooLarge):
        recompress(batch, Codec.ZSTD, None, 20_000)


def test_recompress_of_a_damaged_batch_is_a_decode_error() -> None:
    data = filled(codec=Codec.GZIP).build()
    for at in range(61, len(data)):
        damaged = Batch.read(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            again = Batch.read(recompress(damaged, Codec.NONE, None, MIB))
        except DecodeError:
            continue
        assert at in range(61 + 3, 61 + 10)  # gunzip ignores these flags and the time.
        assert again.crc_ok()


def test_stamped_sets_log_append_time_in_the_header() -> None:
    original = Batch.read(filled(codec=Codec.LZ4, base_offset=3, transactional=True).build())
    batch = Batch.read(stamped(original, 12345))
    assert batch.crc_ok()
    assert (batch.is_log_append_time, batch.is_transactional, batch.codec) == (True, True, Codec.LZ4)
    assert (batch.base_offset, batch.base_timestamp, batch.max_timestamp) == (3, 100, 12345)
    assert batch.payload == original.payload
    assert [record.timestamp for record in records(batch, MIB)] == [12345] * 3


def test_sealing_a_decoded_batch_gives_the_same_bytes() -> None:
    data = filled(base_offset=9, leader_epoch=4).build() + filled(codec=Codec.SNAPPY).build()
    assert b"".join(sealed(batch, batch.payload) for batch in batches(data, strict=True)) == data
