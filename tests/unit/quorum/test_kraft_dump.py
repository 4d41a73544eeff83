"""Tests that read Kafka's metadata logs and snapshots, compared with the output of Kafka's DumpLogSegments."""

from __future__ import annotations

import json
import lzma
import re
from functools import cache
from typing import Any

import pytest

from pykbroker.core.metadata.record import read_record, record_version
from tests.unit.core.metadata.harness import GOLDEN, golden
from tests.unit.wire.plain import plain, snaked
from wire.records.batch import Batch, batches
from wire.records.control import control_records
from wire.records.record import records
from wire.stored.framing import FramedRecord

BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* partitionLeaderEpoch: (\d+) .* "
    r"isControl: (\w+) .* position: \d+ CreateTime: (\d+) size: (\d+) .* crc: (\d+) isvalid: true"
)
RECORD = re.compile(r"\| offset: (\d+) .* headerKeys: \[\] (?:payload: |(\w+):? )({.*})")
ARCHIVES = {
    "snapshotted": "kraft-snapshot-and-dynamic",
    "dynamic-quorum": "kraft-snapshot-and-dynamic",
    "clean": "clean",
}
CONTROL_NAMES = {
    "SnapshotHeader": "SnapshotHeaderRecord",
    "SnapshotFooter": "SnapshotFooterRecord",
    "LeaderChange": "LeaderChangeMessage",
    "KRaftVersion": "KRaftVersionRecord",
    "KRaftVoters": "VotersRecord",
}


@cache
def dumped() -> dict[str, list[str]]:
    """Map each file to its lines in the output of DumpLogSegments."""
    text = lzma.decompress((GOLDEN / "kraft-dump.txt.xz").read_bytes()).decode()
    files = [part.splitlines() for part in text.split("### ")[1:]]
    return {lines[0].strip(): lines[1:] for lines in files}


def content(name: str) -> bytes:
    """Return the content of the file with this name in the dump; the archive has other directory names."""
    member = name.removeprefix("gx/").replace("k1-clean/", "clean/")
    return golden(ARCHIVES[member.split("/")[0]], member)


def header_fields(batch: Batch) -> tuple[Any, ...]:
    return (
        batch.base_offset,
        batch.last_offset,
        batch.count,
        batch.leader_epoch,
        batch.is_control,
        batch.max_timestamp,
        batch.size,
        batch.crc,
    )


def read(batch: Batch) -> list[tuple[int, str, Any]]:
    """Return (offset, record type, fields) of each record in the batch."""
    if batch.is_control:
        return [
            (record.offset, type(record.value).__name__, plain(record.value, 0))
            for record in control_records(batch)
            if record.value is not None
        ]
    found = []
    for record in records(batch, 1 << 20):
        value = read_record(record.value)
        assert isinstance(value, FramedRecord)
        found.append((record.offset, snake(type(value).__name__), plain(value, record_version(value, 30))))
    return found


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


def expected(line: str) -> tuple[int, str, Any]:
    found = RECORD.match(line)
    assert found is not None, line
    dumped_fields = json.loads(found[3])
    if found[2]:
        return int(found[1]), CONTROL_NAMES[found[2]], snaked(dumped_fields)
    return int(found[1]), dumped_fields["type"], snaked(dumped_fields["data"])


@pytest.mark.parametrize("name", dumped())
def test_every_batch_and_record_is_read_as_kafka_dumped_it(name: str) -> None:
    lines = dumped()[name]
    found = list(batches(content(name), strict=True))
    assert all(batch.crc_ok() for batch in found)
    heads = [match.groups() for line in lines if (match := BATCH.match(line))]
    assert [tuple(json.loads(fact) for fact in head) for head in heads] == list(map(header_fields, found))
    dumped_fields = [expected(line) for line in lines if line.startswith("|")]
    assert dumped_fields == [record for batch in found for record in read(batch)]
    assert len(dumped_fields) > 3
