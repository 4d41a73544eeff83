"""Tests with the logs that Apache Kafka 4.3.1 wrote: their batches, and the records that its consumers received."""

import json
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePath
from struct import pack
from typing import Any

import pytest

from tests.unit.wire.records.validated import validated
from wire.errors import DecodeError
from wire.records.batch import Batch, batches
from wire.records.builder import BatchBuilder, recompress, sealed
from wire.records.compression import Codec
from wire.records.control import ControlType, control_records
from wire.records.record import Record, records

MIB = 1 << 20
GOLDEN = Path(__file__).parents[3] / "data" / "golden"
EXPECTED: dict[str, Any] = json.loads((GOLDEN / "clean-expected.json").read_text())["topics"]
SERVED = [
    (topic, partition, isolation)
    for topic, facts in EXPECTED.items()
    for partition, levels in facts["p"].items()
    for isolation in levels
]


def log_files() -> dict[str, bytes]:
    """Map each path in the archive to its content, in the order of the segments."""
    with tarfile.open(GOLDEN / "logdir-clean.tar.xz") as archive:
        members = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
        return {
            name: file.read()
            for name, file in sorted(members.items())
            if file and PurePath(name).suffix in (".log", ".checkpoint")
        }


FILES = log_files()


def log_of(topic: str, partition: str | int = 0) -> list[Batch]:
    """Return all batches of a partition."""
    return [
        batch
        for name, data in FILES.items()
        if PurePath(name).parent.name == f"{topic}-{partition}"
        for batch in batches(data, strict=True)
    ]


def visible(log: list[Batch], isolation: str) -> Iterator[Record]:
    """Yield the records that a consumer gets, without control records and, under read_committed, without aborted
    records.
    """
    marks = [
        (batch.producer_id, batch.base_offset, next(control_records(batch)).type) for batch in log if batch.is_control
    ]
    for batch in log:
        ends = [
            number
            for producer_id, offset, number in marks
            if producer_id == batch.producer_id and offset > batch.last_offset
        ]
        committed = not batch.is_transactional or ends[:1] == [ControlType.COMMIT]
        if not batch.is_control and (committed or isolation == "read_uncommitted"):
            yield from records(batch, MIB)


def sized(data: bytes | None) -> bytes:
    return pack(">i", -1) if data is None else pack(">i", len(data)) + data


def digest(record: Record, timestamp_type: int) -> bytes:
    """Return the bytes over which the recorded checksums are computed."""
    head = pack(">qqi", record.offset, record.timestamp, timestamp_type) + sized(record.key) + sized(record.value)
    names = [(name.encode(), value) for name, value in record.headers]
    return head + b"".join(pack(">H", len(name)) + name + sized(value) for name, value in names)


@pytest.mark.parametrize(("topic", "partition", "isolation"), SERVED)
def test_a_consumer_gets_the_records_that_kafka_served(topic: str, partition: str, isolation: str) -> None:
    expected = EXPECTED[topic]["p"][partition][isolation]
    log = log_of(topic, partition)
    timestamp_type = int(log[0].is_log_append_time)
    seen = [record for record in visible(log, isolation) if record.offset >= expected["start"]]
    checksum = zlib.crc32(b"".join(digest(record, timestamp_type) for record in seen))
    assert (len(seen), f"{checksum:08x}") == (expected["count"], expected["crc"])
    assert log[-1].last_offset + 1 == expected["end"]


@pytest.mark.parametrize("path", FILES)
def test_every_batch_is_valid(path: str) -> None:
    for batch in batches(FILES[path], strict=True):
        assert batch.crc_ok()
        assert sealed(batch, batch.payload) == batch.buffer
        if "compacted" not in path:
            low, high = validated(batch, MIB)
            assert low <= high
            assert batch.is_log_append_time or high == batch.max_timestamp


@pytest.mark.parametrize("codec", Codec)
def test_the_recorded_logs_have_every_codec(codec: Codec) -> None:
    log = log_of(f"codec-{codec.name.lower()}")
    assert [batch.codec for batch in log] == [codec] * 3
    assert [record.key for batch in log for record in records(batch, MIB)] == [b"key-%03d" % n for n in range(30)]


def test_unusual_batches_are_rebuilt_with_the_same_records() -> None:
    for batch in log_of("edge"):
        builder = BatchBuilder(
            base_offset=batch.base_offset,
            leader_epoch=batch.leader_epoch,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )
        for record in records(batch, MIB):
            builder.append(record.key, record.value, record.headers, record.timestamp)
        assert builder.build() == batch.buffer


def test_a_recompressed_and_decompressed_batch_is_unchanged() -> None:
    for batch in log_of("codec-none"):
        for codec in Codec:
            again = Batch.read(recompress(batch, codec, None, MIB))
            assert recompress(again, Codec.NONE, None, MIB) == batch.buffer


@pytest.mark.parametrize("codec", Codec)
def test_every_truncation_of_a_log_is_detected(codec: Codec) -> None:
    path = f"clean/codec-{codec.name.lower()}-0/00000000000000000000.log"
    whole = [batch.size for batch in batches(FILES[path])]
    ends = [0, whole[0], whole[0] + whole[1], sum(whole)]
    for size in range(ends[-1]):
        cut = FILES[path][:size]
        assert len(list(batches(cut))) == sum(end <= size for end in ends[1:])
        if size not in ends:
            with pytest.raises(DecodeError):
                list(batches(cut, strict=True))
