"""Tests of reads, which return whole batches from any offset, from memory or from files, within limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.errors import ApiError
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments.config import LogConfig
from pykbroker.world.disk import FileSlice, NotCached
from pykbroker.world.system_disk import SystemDisk, SystemFile
from pykbroker.world.system_off_loop import SystemOffLoop
from tests.unit.storage.logs import DIRECTORY, NOW, batch, content, every_byte, file_bytes, filled, open_log
from wire.error_codes import ErrorCode
from wire.records.batch import batches

Read = Callable[[int, int, int, bool], bytes]
COUNT = 60


class Filled:
    """A log of 60 batches in several segments, and the offsets and bytes of each batch."""

    def __init__(self, log: Log, places: list[tuple[int, int]], stored: list[bytes]) -> None:
        self.log, self.places, self.stored = log, places, stored

    def expected(self, offset: int, bytes_max: int, upper: int, at_least_one: bool) -> list[bytes]:
        """Return the longest result that a read may have: all whole batches of the segment and of later segments."""
        taken: list[bytes] = []
        for (_, last), data in zip(self.places, self.stored, strict=True):
            if last >= offset:
                fits = sum(map(len, taken)) + len(data) <= bytes_max or (at_least_one and not taken)
                if last >= upper or not fits:
                    break
                taken.append(data)
        return taken


@pytest.fixture(params=["from memory", "opened clean", "opened after a crash"])
async def filled_log(disk: SystemDisk, request: pytest.FixtureRequest) -> AsyncIterator[Filled]:
    log = await open_log(disk)
    places = filled(log, COUNT)
    stored = [bytes(one.buffer) for one in batches(await every_byte(log))]
    if request.param != "from memory":
        await log.close()
        log = await open_log(disk, clean=request.param == "opened clean")
    yield Filled(log, places, stored)
    await log.close()


async def test_every_read_returns_whole_batches_from_the_one_that_contains_the_offset(filled_log: Filled) -> None:
    log, end = filled_log.log, filled_log.log.log_end_offset
    for offset in range(end):
        for bytes_max in (0, 1, 80, 150, 700, 5000):
            for upper in (offset, offset + 1, offset + 5, end):
                for at_least_one in (False, True):
                    data = await log.read_patiently(offset, bytes_max, min(upper, end), at_least_one=at_least_one)
                    expected = filled_log.expected(offset, bytes_max, min(upper, end), at_least_one)
                    got = content(data)
                    assert b"".join(expected).startswith(got), (offset, bytes_max, upper)
                    assert bool(got) == bool(expected), (offset, bytes_max, upper)
                    assert sum(len(one.buffer) for one in batches(got, strict=True)) == len(got)


async def test_a_read_returns_as_many_batches_of_a_segment_as_the_limits_allow(filled_log: Filled) -> None:
    log = filled_log.log
    bases = [segment.base_offset for segment in log.segments.every()] + [log.log_end_offset]
    for base, following in pairwise(bases):
        data = await log.read_patiently(base, 10_000, log.log_end_offset, at_least_one=False)
        assert [one.last_offset for one in batches(content(data))][-1] == following - 1


async def test_offsets_outside_of_the_log_are_refused(disk: SystemDisk) -> None:
    log = await open_log(disk)
    filled(log, 3)
    log.delete_records(2)
    end = log.log_end_offset
    assert log.reader.read(end, 1000, end, at_least_one=True) == b""
    for offset in (-1, 0, 1, end + 1):
        with pytest.raises(ApiError) as refusal:
            log.reader.read(offset, 1000, end, at_least_one=True)
        assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_the_newest_batches_are_read_from_memory(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await open_log(disk, LogConfig())
    places = filled(log, 2000)
    monkeypatch.delattr(SystemFile, "read_nowait")
    for first, last in places[-500:]:
        data = log.reader.read(first, 1, log.log_end_offset, at_least_one=True)
        assert [one.last_offset for one in batches(content(data))] == [last]
        assert log.reader.bytes_between(first, last + 1, 1) == len(data)


async def test_large_ranges_are_returned_as_file_slices(disk: SystemDisk) -> None:
    log = await open_log(disk, LogConfig())
    for _ in range(10):
        log.appender.append(batch(bytes(20_000)), 0, NOW)
    data = await log.read_patiently(0, 1 << 20, 10, at_least_one=True)
    assert isinstance(data, FileSlice)
    assert len(data) == log.size_bytes
    assert content(data) == await every_byte(log)


async def test_a_read_waits_for_bytes_that_are_not_in_the_page_cache(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await open_log(disk, LogConfig())
    log.appender.append(batch(bytes(20_000)), 0, NOW)
    cold, read = [True], SystemFile.read_nowait

    def read_nowait(file: SystemFile, offset: int, size: int) -> object:
        if cold:
            raise NotCached(file, offset, size)
        return read(file, offset, size)

    async def read_patiently(file: SystemFile, offset: int, size: int) -> object:
        cold.clear()
        await trio.lowlevel.checkpoint()
        return read(file, offset, size)

    monkeypatch.setattr(SystemFile, "read_nowait", read_nowait)
    monkeypatch.setattr(SystemFile, "read", read_patiently)
    with pytest.raises(NotCached):
        log.reader.read(0, 1, 1, at_least_one=True)
    assert len(await log.read_patiently(0, 1, 1, at_least_one=True)) == log.size_bytes


async def test_only_a_few_sealed_segments_are_open_at_a_time(disk: SystemDisk) -> None:
    log = await open_log(disk, LogConfig(segment_bytes=200))
    filled(log, 200)
    await log.flush()
    for offset in range(0, log.log_end_offset, 3):
        await log.read_patiently(offset, 1, log.log_end_offset, at_least_one=True)
    assert sum(segment.is_loaded for segment in log.segments.sealed) == 64
    assert len(log.segments.sealed) > 100


@given(st.integers(0, 2**20), st.integers(0, 7))
def test_a_flipped_bit_is_never_served(tmp_path_factory: pytest.TempPathFactory, at: int, bit: int) -> None:
    """Flip any bit of a segment that recovery does not read. No checksum covers leader epochs."""
    trio.run(serve_flipped, SystemDisk(str(tmp_path_factory.mktemp("log")), SystemOffLoop(), durable=False), at, bit)


async def serve_flipped(disk: SystemDisk, at: int, bit: int) -> None:
    log = await open_log(disk)
    filled(log, 20)
    whole = await every_byte(log)
    await log.close()
    file = disk.open(f"{DIRECTORY}/{0:020d}.log")
    data = bytearray(file_bytes(file))
    at %= len(data)
    if any(start + 12 <= at < start + 16 for start in positions(data)):
        return
    data[at] ^= 1 << bit
    file.truncate(0)
    file.append(data)
    log = await open_log(disk, clean=True)
    with pytest.raises(CorruptLog):
        await every_byte(log)
    assert len(whole) > len(data)


def positions(data: bytes | bytearray) -> list[int]:
    """Return the position of each batch."""
    found, at = [], 0
    for one in batches(data, strict=True):
        found.append(at)
        at += one.size
    return found
