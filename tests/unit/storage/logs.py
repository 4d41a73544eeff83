"""Helpers for tests of storage: batches, logs in a temporary directory, and a model of the expected reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from pykbroker.storage.files.errors import patiently
from pykbroker.storage.log.appender import Appended
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments.config import LogConfig
from pykbroker.world.disk import Buffer, Disk, FileSlice
from pykbroker.world.system_disk import SystemFile
from pykbroker.world.system_off_loop import SystemOffLoop
from wire.records.batch import Batch, batches
from wire.records.builder import BatchBuilder

T = TypeVar("T")
NOW = 1_700_000_000_000
DIRECTORY = "topic-0"
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def batch(*values: bytes, timestamp: int = NOW, step: int = 0, key: bytes | None = b"key", **fields: Any) -> bytes:
    """Return a batch of these values, with timestamps that increase by `step`."""
    builder = BatchBuilder(**fields)
    for at, value in enumerate(values or (b"value",)):
        builder.append(key, value, timestamp=timestamp + at * step)
    return builder.build()


def marker(producer_id: int, *, commit: bool, producer_epoch: int = 0, coordinator_epoch: int = 0) -> bytes:
    """Return a transaction marker."""
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True)
    builder.append(bytes([0, 0, 0, commit]), b"\0\0" + coordinator_epoch.to_bytes(4, "big"), timestamp=NOW)
    return builder.build()


def append_in_transaction(log: Log, data: bytes, leader_epoch: int = 0) -> Appended:
    """Append a transactional batch that is verified."""
    one = Batch.read(data)
    shown = log.producers.begin_verification(one.producer_id, one.producer_epoch, one.base_sequence, NOW)
    return log.appender.append(data, leader_epoch, NOW, shown)


async def open_log(disk: Disk, config: LogConfig = SMALL, **options: Any) -> Log:
    """Open the log in DIRECTORY, or create it."""
    if not disk.exists(DIRECTORY):
        disk.make_directory(DIRECTORY)
    return await Log.open(disk, DIRECTORY, config, off_loop=SystemOffLoop(), **options)


def filled(log: Log, count: int, **fields: Any) -> list[tuple[int, int]]:
    """Append batches of one to three records; return (first offset, last offset) of each."""
    places = []
    for number in range(count):
        values = [b"%d" % number * (1 + number % 7)] * (1 + number % 3)
        appended = log.appender.append(batch(*values, timestamp=NOW + number, **fields), 0, NOW)
        places.append((appended.base_offset, appended.last_offset))
    return places


async def slowly(method: Callable[..., T], *args: Any) -> T:
    """Return the result of a synchronous method of a log; wait for the disk if necessary."""
    return await patiently(partial(method, *args))


def content(data: Buffer | FileSlice) -> bytes:
    """Return the bytes that `read` returned, or that its file slice refers to."""
    if not isinstance(data, FileSlice):
        return bytes(data)
    assert isinstance(data.file, SystemFile)
    return file_bytes(data.file)[data.offset : data.offset + data.size]


def file_bytes(file: SystemFile) -> bytes:
    """Return the content of a file, whether or not it is in the page cache."""
    return os.pread(file.fileno(), file.size, 0)


async def every_batch(log: Log) -> list[Batch]:
    """Return all readable batches of the log; assert that their checksums are valid."""
    found: list[Batch] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = await log.read_patiently(offset, 700, log.log_end_offset, at_least_one=True)
        got = list(batches(content(data), strict=True))
        assert got
        assert all(one.crc_ok() for one in got)
        found += got
        offset = found[-1].last_offset + 1
    return found


async def every_byte(log: Log) -> bytes:
    """Return the whole log as bytes."""
    return b"".join(bytes(one.buffer) for one in await every_batch(log))
