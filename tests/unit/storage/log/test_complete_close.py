"""Tests of a complete close: it leaves the files without which Kafka would recover a log, or lose what they hold."""

from __future__ import annotations

import errno
import struct
from typing import Any

import pytest

from pykbroker.storage.files.checkpoints import EPOCHS
from pykbroker.storage.files.small_files import read_whole
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments import txn_index
from pykbroker.storage.segments.config import LogConfig
from pykbroker.world.system_disk import SystemDisk, SystemFile
from tests.unit.storage.logs import DIRECTORY, NOW, append_in_transaction, batch, marker, open_log
from wire.records.batch import batches

BIG = LogConfig()
"""Configs under which no segment rolls in these tests."""
INDEX, LOG, TIMES = (f"{0:020d}{suffix}" for suffix in (".index", ".log", ".timeindex"))
COUNT = 5


async def closed(disk: SystemDisk, count: int, *, idempotent: bool = False) -> Log:
    """Return a log of `count` records that was closed completely."""
    log = await open_log(disk, BIG)
    log.become_leader(3)
    for number in range(count):
        producer: dict[str, Any] = (
            {"producer_id": 1, "producer_epoch": 0, "base_sequence": number} if idempotent else {}
        )
        log.appender.append(batch(timestamp=NOW + number, **producer), 3, NOW)
    await log.close(complete=True)
    return log


async def reopened(disk: SystemDisk, log: Log) -> Log:
    return await open_log(disk, BIG, clean=True, recovery_point=log.log_end_offset)


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_complete_close_writes_indexes_epochs_and_producers(disk: SystemDisk, idempotent: bool) -> None:
    await closed(disk, COUNT, idempotent=idempotent)
    snapshot = [f"{COUNT:020d}.snapshot"] if idempotent else []
    assert disk.names(DIRECTORY) == [INDEX, LOG, TIMES, *snapshot, EPOCHS]
    assert await read_whole(disk, f"{DIRECTORY}/{INDEX}") == b""
    assert await read_whole(disk, f"{DIRECTORY}/{TIMES}") == struct.pack(">qi", NOW + COUNT - 1, COUNT - 1)
    assert await read_whole(disk, f"{DIRECTORY}/{EPOCHS}") == b"0\n1\n3 0\n"


async def test_a_complete_close_of_an_empty_log_writes_an_empty_index_alone(disk: SystemDisk) -> None:
    await closed(disk, 0)
    assert disk.names(DIRECTORY) == [INDEX, LOG]


@pytest.mark.parametrize("count", [0, COUNT])
async def test_a_complete_close_of_an_unchanged_log_creates_no_file(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    again = await reopened(disk, await closed(disk, count, idempotent=True))
    again.become_leader(9)
    opened = SystemDisk.open

    def refuse(self: SystemDisk, path: str, *, create: bool = False) -> SystemFile:
        assert not create, f"{path} must not be written"
        return opened(self, path)

    monkeypatch.setattr(SystemDisk, "open", refuse)
    await again.close(complete=True)


async def test_a_log_that_grew_after_a_complete_close_gets_new_indexes(disk: SystemDisk) -> None:
    again = await reopened(disk, await closed(disk, COUNT, idempotent=True))
    again.appender.append(batch(timestamp=NOW + 100), 9, NOW)
    await again.close(complete=True)
    assert (await read_whole(disk, f"{DIRECTORY}/{TIMES}"))[-12:] == struct.pack(">qi", NOW + 100, COUNT)
    last = await reopened(disk, again)
    assert last.epochs.entries == ((3, 0), (9, COUNT))
    known = last.producers.get(1)
    assert known is not None
    assert known.last_sequence == COUNT - 1


LAST_FILES = (INDEX, TIMES, f"{COUNT:020d}.snapshot", EPOCHS)


@pytest.mark.parametrize("refused", LAST_FILES)
async def test_a_close_on_a_full_disk_leaves_the_log_for_kafka_to_recover(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refused: str
) -> None:
    """Kafka recovers no log that has an index: it would take an empty time index for complete."""
    appended = SystemFile.append

    def full(self: SystemFile, data: bytes) -> int:
        if self.path.endswith(refused):
            raise OSError(errno.ENOSPC, "No space left on device")
        return appended(self, data)

    monkeypatch.setattr(SystemFile, "append", full)
    log = await closed(disk, COUNT, idempotent=True)
    assert log.failed is None
    assert f"{DIRECTORY}/{refused}" in caplog.text
    assert "could not be written and will be rebuilt: [Errno 28] No space left on device" in caplog.text
    assert disk.names(DIRECTORY) == [LOG]


async def test_a_close_on_a_full_disk_removes_the_older_indexes(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = await reopened(disk, await closed(disk, COUNT))
    again.appender.append(batch(timestamp=NOW + 100), 3, NOW)
    opened = SystemDisk.open

    def full(self: SystemDisk, path: str, *, create: bool = False) -> SystemFile:
        if create:
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(self, path)

    monkeypatch.setattr(SystemDisk, "open", full)
    await again.close(complete=True)
    assert disk.names(DIRECTORY) == [LOG, EPOCHS]
    monkeypatch.undo()
    last = await reopened(disk, again)
    assert last.log_end_offset == COUNT + 1
    assert last.reader.max_timestamp() == (NOW + 100, COUNT, 3)


async def test_a_truncated_log_is_closed_with_the_aborted_transactions_that_it_still_has(disk: SystemDisk) -> None:
    """Kafka returns aborted records if the transaction index of an indexed segment is missing."""
    log = await open_log(disk, BIG)
    for number in range(2):
        sequence: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": number}
        append_in_transaction(log, batch(transactional=True, **sequence))
        log.append_as_leader(marker(1, commit=False), 0)
    await log.close(complete=True)
    path = f"{DIRECTORY}/{0:020d}.txnindex"
    both = await read_whole(disk, path)
    again = await reopened(disk, log)
    await again.truncate(2)
    assert not disk.exists(path)
    await again.close(complete=True)
    assert await read_whole(disk, path) == both[: txn_index.ENTRY.size]
    content = await read_whole(disk, f"{DIRECTORY}/{LOG}")
    assert [one.last_offset for one in batches(content)] == [0, 1]
