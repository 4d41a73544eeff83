"""Tests of reads from Kafka's log directories: every record that Kafka served is served at both isolation levels."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest

from pykbroker.core.ids import id_bytes
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments.config import LogConfig
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_off_loop import SystemOffLoop
from tests.unit.storage.golden import config_of, expected, unpack
from tests.unit.storage.logs import content, slowly
from wire.records.batch import Batch, batches
from wire.records.record import Record, records

NOW = 1_800_000_000_000


async def directory(path: Path) -> LogDirectory:
    disk = SystemDisk(str(path), SystemOffLoop(), durable=False)
    return await LogDirectory.open(disk, off_loop=SystemOffLoop(), wall_ms=lambda: NOW, jitter=lambda: 0.0)


async def served(log: Log, upper_offset: int, *, committed: bool) -> list[tuple[Record, Batch]]:
    """Return the records that a consumer gets, without control records and, with `committed`, without
    aborted records.
    """
    found: list[tuple[Record, Batch]] = []
    offset = log.log_start_offset
    while offset < upper_offset:
        data = await log.read_patiently(offset, 1000, upper_offset, at_least_one=True)
        aborted = await slowly(log.reader.aborted_transactions, offset, data) if committed else []
        for batch in batches(content(data), strict=True):
            void = batch.is_transactional and any(
                one.producer_id == batch.producer_id and one.first_offset <= batch.base_offset < one.last_offset
                for one in aborted
            )
            if not batch.is_control and not void:
                found += ((one, batch) for one in records(batch, 1 << 20) if one.offset >= log.log_start_offset)
            offset = max(offset, batch.last_offset + 1)
        if not len(data):
            break
    return found


def checksum(found: list[tuple[Record, Batch]]) -> str:
    return f"{zlib.crc32(b''.join(piece for one in found for piece in pieces(*one))):08x}"


def pieces(record: Record, batch: Batch) -> Iterator[bytes]:
    yield pack(">qqi", record.offset, record.timestamp, int(batch.is_log_append_time))
    for field in (record.key, record.value):
        yield pack(">i", -1) if field is None else pack(">i", len(field)) + field
    for name, value in record.headers:
        yield pack(">H", len(name.encode())) + name.encode()
        yield pack(">i", -1) if value is None else pack(">i", len(value)) + value


@pytest.mark.parametrize("kind", ["clean", "unclean"])
async def test_every_record_that_kafka_served_is_served(tmp_path: Path, kind: str) -> None:
    """The unclean directory ends with an open transaction, which Kafka aborted before it served the log."""
    real_dir = await directory(unpack(kind, tmp_path))
    assert real_dir.clean is (kind == "clean")
    seen = 0
    for topic, facts in expected(kind).items():
        for partition, levels in facts["p"].items():
            log = await real_dir.open_log(
                TopicPartition(topic, int(partition)), id_bytes(facts["id"]), config_of(topic)
            )
            end = log.log_end_offset
            everything = levels["read_uncommitted"]
            found = await served(log, end, committed=False)
            assert (log.log_start_offset, len(found), checksum(found)) == (
                everything["start"],
                everything["count"],
                everything["crc"],
            ), topic
            stable = log.reader.last_stable_offset(end)
            if stable == end:
                found = await served(log, end, committed=True)
                committed = levels["read_committed"]
                assert (len(found), checksum(found)) == (committed["count"], committed["crc"]), topic
            else:
                assert (kind, topic) == ("unclean", "txn")
            if kind == "clean":
                assert end == everything["end"]
                assert real_dir.high_watermark(TopicPartition(topic, int(partition))) == end
            seen += 1
    assert seen >= 15


async def test_opening_and_closing_kafkas_directory_changes_no_file(tmp_path: Path) -> None:
    """Open, read and close a directory that Kafka closed cleanly."""
    path = unpack("clean", tmp_path)
    before = {one.relative_to(path): one.read_bytes() for one in path.glob("*/*")}
    real_dir = await directory(path)
    topics = expected("clean")
    for topic, facts in topics.items():
        for partition in facts["p"]:
            log = await real_dir.open_log(
                TopicPartition(topic, int(partition)), id_bytes(facts["id"]), config_of(topic)
            )
            await served(log, log.log_end_offset, committed=True)
    await real_dir.close(broker_epoch=238, high_watermarks={})
    after = {one.relative_to(path): one.read_bytes() for one in path.glob("*/*")}
    different = {str(name) for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert {name for name in different if not name.endswith(("leader-epoch-checkpoint", ".snapshot"))} == set()
    assert (path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":238}'
    assert not (path / ".lock").exists()


async def test_aborted_records_stay_hidden_without_the_transaction_index(tmp_path: Path) -> None:
    path = unpack("clean", tmp_path)
    for index in path.glob("txn-0/*.txnindex"):
        index.unlink()
    real_dir, facts = await directory(path), expected("clean")["txn"]
    log = await real_dir.open_log(TopicPartition("txn", 0), id_bytes(facts["id"]), LogConfig())
    found = await served(log, log.log_end_offset, committed=True)
    assert checksum(found) == facts["p"]["0"]["read_committed"]["crc"]
