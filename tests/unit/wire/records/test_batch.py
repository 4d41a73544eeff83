"""Tests of the batch as a view on bytes: header fields, attribute bits, invalid sizes, and consecutive batches."""

import pytest

from wire.declare import Buffer
from wire.errors import DecodeError
from wire.records.batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD, Batch, batches
from wire.records.compression import Codec

COMMIT = bytes.fromhex(  # a transaction marker that Kafka 4.3.1 wrote
    "0000000000000006 00000042 00000000 02 c0892c51 0030 00000000 000001a1fe33b918 000001a1fe33b918"
    "0000000000000001 0000 ffffffff 00000001 20 00 00 00 08 00000001 0c 000000000000 00"
)


def changed(at: int, data: bytes) -> bytes:
    """Return the marker with other bytes at a position."""
    return COMMIT[:at] + data + COMMIT[at + len(data) :]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_header_fields_of_a_batch_are_parsed(kind: type[Buffer]) -> None:
    batch = Batch.read(kind(COMMIT))
    assert (batch.base_offset, batch.leader_epoch, batch.magic, batch.crc) == (6, 0, 2, 0xC0892C51)
    assert (batch.last_offset_delta, batch.base_timestamp, batch.max_timestamp) == (0, 0x1A1FE33B918, 0x1A1FE33B918)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.count) == (1, 0, -1, 1)
    assert (batch.size, batch.batch_length, batch.last_offset) == (len(COMMIT), 0x42, 6)
    assert batch.buffer == COMMIT
    assert batch.payload == COMMIT[HEADER_BYTES:]
    assert batch.crc_ok()


def test_the_attribute_bits_of_a_batch_are_parsed() -> None:
    flags = [Batch.read(changed(21, bytes([0, 1 << bit]))) for bit in range(3, 7)]
    assert [batch.is_log_append_time for batch in flags] == [True, False, False, False]
    assert [batch.is_transactional for batch in flags] == [False, True, False, False]
    assert [batch.is_control for batch in flags] == [False, False, True, False]
    assert [batch.has_delete_horizon for batch in flags] == [False, False, False, True]


def test_the_codec_is_in_the_low_three_attribute_bits() -> None:
    assert [Batch.read(changed(21, bytes([0, 0xF8 | number]))).codec for number in range(5)] == list(Codec)
    for number in (5, 6, 7):
        batch = Batch.read(changed(21, bytes([0, number])))
        with pytest.raises(DecodeError, match=f"codec {number}"):
            _ = batch.codec


def test_a_view_may_start_at_any_position_and_does_not_copy() -> None:
    data = bytearray(b"before" + COMMIT + b"after")
    batch = Batch.read(data, 6)
    assert batch.buffer == COMMIT
    data[6 + HEADER_BYTES] ^= 1
    assert batch.buffer != COMMIT
    assert not batch.crc_ok()


def test_the_crc_covers_everything_from_the_attributes_on() -> None:
    for at in range(21, len(COMMIT)):
        assert not Batch.read(changed(at, bytes([COMMIT[at] ^ 0x40]))).crc_ok(), at
    assert Batch.read(changed(0, bytes(8))).crc_ok()
    assert Batch.read(changed(12, b"\0\0\0\7")).crc_ok()


def test_every_truncation_is_a_decode_error() -> None:
    for size in range(len(COMMIT)):
        with pytest.raises(DecodeError):
            Batch.read(COMMIT[:size])


@pytest.mark.parametrize("length", [-(2**31), -13, -12, -1, 0, HEADER_BYTES - LENGTH_OVERHEAD - 1, 0x43, 2**31 - 1])
def test_a_wrong_length_is_a_decode_error(length: int) -> None:
    data = changed(8, length.to_bytes(4, "big", signed=True))
    with pytest.raises(DecodeError, match="length"):
        Batch.read(data)
    with pytest.raises(DecodeError):
        list(batches(data, strict=True))


def test_a_batch_size_is_checked_against_the_bytes_after_its_position() -> None:
    with pytest.raises(DecodeError, match="length"):
        Batch.read(COMMIT + COMMIT[:70], len(COMMIT))


@pytest.mark.parametrize("magic", [-1, 0, 1, 3])
def test_batches_of_other_magic_values_are_refused(magic: int) -> None:
    with pytest.raises(DecodeError, match="magic"):
        Batch.read(changed(16, magic.to_bytes(1, "big", signed=True)))


def test_consecutive_batches_are_iterated() -> None:
    data = b"".join(HEADER.pack(n, 49 + n, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1) + bytes(n) for n in range(50))
    assert [(batch.base_offset, batch.size) for batch in batches(data, strict=True)] == [(n, 61 + n) for n in range(50)]
    assert list(batches(b"")) == []


def test_an_incomplete_batch_ends_the_iteration_unless_strict() -> None:
    for cut in range(1, len(COMMIT)):
        data = memoryview(COMMIT + COMMIT)[:-cut]
        assert [batch.size for batch in batches(data)] == [len(COMMIT)]
        with pytest.raises(DecodeError):
            list(batches(data, strict=True))


@pytest.mark.parametrize("damage", [changed(16, b"\1"), changed(8, b"\xff" * 4), changed(8, bytes(4))])
def test_a_damaged_batch_is_a_decode_error(damage: bytes) -> None:
    run = batches(COMMIT + damage + COMMIT)
    assert next(run).size == len(COMMIT)
    with pytest.raises(DecodeError):
        next(run)
