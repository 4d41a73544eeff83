"""Tests of the records of a batch: iteration, validation, and invalid lengths and counts."""

import random
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.records.validated import validated
from wire.errors import DecodeError
from wire.records.batch import HEADER, HEADER_BYTES, LOG_APPEND_TIME, Batch
from wire.records.builder import BatchBuilder
from wire.records.compression import Codec, TooLarge, compress
from wire.records.record import Record, records

KIB = 1024
RECORDS = [
    Record(70, 1000, b"key", b"value", ()),
    Record(71, 990, None, None, ()),
    Record(72, 2000, b"", b"", (("a", b"1"), ("a", None), ("", b""), ("héad", b"\xff" * 70))),
    Record(73, 1000, b"k" * 200, b"v" * 20_000, ()),
]


def batch(payload: bytes, count: int, attributes: int = 0, last_delta: int | None = None) -> Batch:
    """Return a batch with any payload, base offset 70, and timestamps 1000 and 5000."""
    last_delta = count - 1 if last_delta is None else last_delta
    header = HEADER.pack(70, 49 + len(payload), 0, 2, 0, attributes, last_delta, 1000, 5000, -1, -1, -1, count)
    return Batch.read(header + payload)


def built(codec: Codec = Codec.NONE) -> Batch:
    builder = BatchBuilder(codec, base_offset=70)
    for record in RECORDS:
        builder.append(record.key, record.value, record.headers, record.timestamp)
    return Batch.read(builder.build())


def outcomes(damaged: Batch, bytes_max: int) -> Iterator[bool]:
    """Yield whether iteration and whether validation succeed; fail on any exception except DecodeError."""
    for reader in (lambda: list(records(damaged, bytes_max)), lambda: validated(damaged, bytes_max)):
        try:
            reader()
            yield True
        except DecodeError:
            yield False


@pytest.mark.parametrize("codec", Codec)
def test_records_of_every_codec_are_decoded(codec: Codec) -> None:
    assert list(records(built(codec), 30 * KIB)) == RECORDS
    assert validated(built(codec), 30 * KIB) == (990, 2000)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_the_decompressed_size_of_records_is_limited(codec: Codec) -> None:
    with pytest.raises(TooLarge):
        list(records(built(codec), 20_000))
    with pytest.raises(TooLarge):
        validated(built(codec), 20_000)


def test_all_records_have_the_log_append_time_as_timestamp() -> None:
    stamped = batch(bytes(built().payload), 4, LOG_APPEND_TIME)
    assert [record.timestamp for record in records(stamped, 0)] == [5000] * 4


def test_a_batch_emptied_by_compaction_has_no_records() -> None:
    for codec in Codec:
        assert list(records(batch(b"", 0, codec, last_delta=9), 0)) == []


def test_offset_gaps_from_compaction_are_accepted() -> None:
    kept = bytes.fromhex("0c 00 00 04 01 01 000c 00 00 0c 01 01 00")
    assert [record.offset for record in records(batch(kept, 2, last_delta=9), 0)] == [72, 76]
    with pytest.raises(DecodeError):
        validated(batch(kept, 2, last_delta=9), 0)
    with pytest.raises(DecodeError):
        validated(batch(kept, 2), 0)


@pytest.mark.parametrize("offset_delta", ["13", "0f", "01"])  # 10 above the last offset, then -8 and -1
def test_offsets_outside_of_the_batch_are_a_decode_error(offset_delta: str) -> None:
    with pytest.raises(DecodeError, match="offset delta"):
        list(records(batch(bytes.fromhex(f"0c 00 00 {offset_delta} 01 01 00"), 1, last_delta=8), 0))


def test_header_names_that_are_not_utf8_are_decoded_as_in_java() -> None:
    payload = bytes.fromhex("14 00 00 00 01 01 02 04 61 ff 01")
    assert [record.headers for record in records(batch(payload, 1), 0)] == [(("a\N{REPLACEMENT CHARACTER}", None),)]


FINE = "0c 00 00 00 01 01 00"


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        ("", 1),
        (FINE, 2),
        (FINE, -1),
        (FINE, 0),
        (FINE, 2**31 - 1),
        (FINE + "00", 1),
        (FINE + FINE, 1),
        (FINE + FINE, 2),  # Two records have the same offset.
        ("0e 00 00 00 01 01 00", 1),  # The length is too large.
        ("0a 00 00 00 01 01 00", 1),  # The length is too small.
        ("00", 1),
        ("01 00 00 00 01 01 00", 1),  # The length is -1.
        ("ffffffff0f 00 00 00 01 01 00", 1),
        ("feffffff0f 00 00 00 01 01 00", 1),
        ("80808080808080 00 00 00 01 01 00", 1),
        ("0c 00 00 00 03 01 00", 1),  # a key of -2 bytes
        ("0c 00 00 00 01 03 00", 1),
        ("0c 00 00 00 04 01 00", 1),  # a key that extends beyond the record
        ("0c 00 00 00 01 7e 00", 1),
        ("14 00 00 00 feffffff0f 01 00", 1),
        ("14 00 00 00 01 feffffff0f 00", 1),
        ("0c 00 00 00 01 01 01", 1),  # -1 headers
        ("0c 00 00 00 01 01 02", 1),  # a missing header
        ("14 00 00 00 01 01 feffffff0f", 1),
        ("10 00 00 00 01 01 02 01 01", 1),  # a header without a key
        ("10 00 00 00 01 01 02 00 03", 1),  # with a value of -2 bytes
        ("10 00 00 00 01 01 02 04 61", 1),
        (FINE.replace("00 00 00", "00 ffffffffffffffffffff01 00"), 1),  # a timestamp of 11 bytes
    ],
)
def test_wrong_lengths_and_counts_are_decode_errors(payload: str, count: int) -> None:
    damaged = batch(bytes.fromhex(payload), count)
    with pytest.raises(DecodeError):
        validated(damaged, KIB)
    if payload != FINE + FINE or count != 2:
        with pytest.raises(DecodeError):
            list(records(damaged, KIB))


def test_undefined_attributes_are_accepted() -> None:
    odd = batch(bytes.fromhex("0c 01 00 00 01 01 00"), 1)
    assert len(list(records(odd, 0))) == 1
    assert validated(odd, 0) == (odd.base_timestamp, odd.base_timestamp)


def test_missing_keys_are_reported_where_required() -> None:
    keyed = BatchBuilder()
    for key in (b"a", b""):
        keyed.append(key, b"value")
    validated(Batch.read(keyed.build()), 0, key_required=True)
    keyed.append(None, b"value")
    validated(Batch.read(keyed.build()), 0)
    with pytest.raises(DecodeError, match="1 records without a key, the first is record 2"):
        validated(Batch.read(keyed.build()), 0, key_required=True)


@pytest.mark.parametrize("deltas", [[0], [5, 1], [-5, -9], [0, 3, -7, 2]])
def test_validation_returns_the_smallest_and_the_largest_timestamp(deltas: list[int]) -> None:
    builder = BatchBuilder(base_timestamp=1000)
    for delta in deltas:
        builder.append(b"", b"", (), 1000 + delta)
    assert validated(Batch.read(builder.build()), 0) == (1000 + min(deltas), 1000 + max(deltas))


def test_the_number_of_headers_is_limited() -> None:
    def with_headers(count: int) -> Batch:
        builder = BatchBuilder()
        builder.append(None, None, (("", None),) * count)
        return Batch.read(builder.build())

    assert [len(record.headers) for record in records(with_headers(250_000), 0)] == [250_000]
    assert list(outcomes(with_headers(250_001), 0)) == [False, False]


def test_the_smallest_headers_use_bounded_memory() -> None:
    builder = BatchBuilder()
    builder.append(None, None, (("", None),) * 250_000)
    whole = Batch.read(builder.build())
    tracemalloc.start()
    try:
        run = list(records(whole, 0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(run) == 1
    assert peak < 64 * whole.size + (1 << 20)


@pytest.mark.parametrize("codec", Codec)
def test_a_claimed_record_count_allocates_no_memory(codec: Codec) -> None:
    payload = compress(codec, bytes.fromhex(FINE))
    with pytest.raises(DecodeError, match="2000000000 records"):
        list(records(batch(payload, 2_000_000_000, codec), KIB))


def test_an_unknown_codec_is_a_decode_error() -> None:
    for number in (5, 6, 7):
        assert list(outcomes(batch(bytes(7), 1, number), KIB)) == [False, False]


@pytest.mark.parametrize("codec", Codec)
def test_every_truncation_of_the_records_is_a_decode_error(codec: Codec) -> None:
    whole = bytes(built(codec).payload)
    for size in range(len(whole)) if len(whole) < KIB else (*range(KIB), *range(len(whole) - KIB, len(whole))):
        assert list(outcomes(batch(whole[:size], 4, codec), 64 * KIB)) == [False, False], size


def test_every_truncation_within_the_compressed_records_is_a_decode_error() -> None:
    whole = bytes(built().payload)
    for size in (*range(500), *range(len(whole) - 500, len(whole))):
        assert list(outcomes(batch(compress(Codec.LZ4, whole[:size]), 4, Codec.LZ4), 64 * KIB)) == [False, False], size


@pytest.mark.parametrize("codec", Codec)
def test_a_changed_byte_raises_only_decode_error(codec: Codec) -> None:
    whole = built(codec).buffer.tobytes()
    for at in (*range(16), *range(21, min(len(whole), 700))):  # everything but the magic byte and the checksum
        for value in (0, 1, 0x7F, 0x80, 0xFF, whole[at] ^ 2):
            try:
                damaged = Batch.read(whole[:at] + bytes([value]) + whole[at + 1 :])
            except DecodeError:
                continue
            assert len(list(outcomes(damaged, 64 * KIB))) == 2


@given(seed=st.integers(0, 2**32), edits=st.integers(1, 6))
def test_random_mutations_raise_only_decode_error(seed: int, edits: int) -> None:
    rng, payload = random.Random(seed), bytearray(built().payload[:300])
    for _ in range(edits):
        at = rng.randrange(len(payload))
        if rng.random() < 0.5:
            payload[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
        else:
            payload[at : at + rng.randrange(4)] = rng.randbytes(rng.randrange(4))
    for count in (1, 3, 4, len(payload) // 7):
        assert len(list(outcomes(batch(bytes(payload), count), 64 * KIB))) == 2


def test_records_are_decoded_one_by_one() -> None:
    damaged = batch(bytes.fromhex(FINE + "0e 00 00 02 01 01 00"), 2)
    run = records(damaged, 0)
    assert next(run).offset == 70
    with pytest.raises(DecodeError):
        next(run)


def test_no_byte_is_read_beyond_the_batch() -> None:
    one = built().buffer.tobytes()
    middle = Batch.read(one + one + one, len(one))
    assert middle.size == len(one) > HEADER_BYTES
    assert list(records(middle, 0)) == RECORDS
