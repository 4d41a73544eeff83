"""Tests of compacted logs with many more consecutive empty segments than may be open at a time."""

from __future__ import annotations

import pytest

from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments.opening import LOADED_MAX, Loaded
from pykbroker.storage.segments.scrub import unpaced
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.world.system_disk import SystemDisk
from tests.unit.storage.compacted import COMPACTED, clean, end, last_values, opened, put, stored
from tests.unit.storage.logs import DIRECTORY, NOW, slowly

KEYS = [b"a", b"b", b"c"]
LATER = NOW + 10**9
"""The time from which the tombstones and markers of an earlier compaction may be removed."""


async def mostly_empty(disk: SystemDisk) -> Log:
    """Return a log with more than LOADED_MAX empty segments between an aborted transaction and the last values."""
    disk.make_directory(DIRECTORY)
    log = await opened(disk)
    put(log, [(b"first", b"1" * 500)])
    put(log, [(b"first", b"void" * 100)], 1)
    end(log, 1, commit=False)
    while len(log.segments.sealed) < LOADED_MAX + 10:
        put(log, [(key, b"%d" % log.log_end_offset * 20) for key in KEYS])
    assert await clean(log)
    empty = [one for one in log.segments.sealed if not one.size]
    assert len(empty) > LOADED_MAX
    assert log.segments.sealed[0].size
    return log


@pytest.fixture(params=["open", "closed", "killed"])
async def log(request: pytest.FixtureRequest, disk: SystemDisk) -> Log:
    """Return a log with many empty segments, before or after a restart. At most one sealed segment is
    loaded at a time.
    """
    log, loaded = await mostly_empty(disk), Loaded(1)
    if request.param == "closed":
        await log.close()
    if request.param != "open":
        log = await Log.open(
            disk,
            DIRECTORY,
            COMPACTED,
            off_loop=InlineOffLoop(),
            now_ms=NOW,
            loaded=loaded,
            clean=request.param == "closed",
            recovery_point=log.recovery_point,
            cleaned_offset=log.cleaned_offset,
        )
    log.state.opening.loaded = loaded
    return log


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[SealedSegment]:
    """Record each load of a sealed segment."""
    found: list[SealedSegment] = []
    load = SealedSegment.load

    async def noting(segment: SealedSegment) -> None:
        found.append(segment)
        await load(segment)

    monkeypatch.setattr(SealedSegment, "load", noting)
    return found


async def test_reads_skip_empty_segments_without_loading_them(loads: list[SealedSegment], log: Log) -> None:
    for segment in log.segments.sealed:
        segment.unload()
    loads.clear()
    _, committed = await stored(log)
    assert [one.key for one in committed if one.offset < log.cleaned_offset] == [b"first", *KEYS]
    assert await log.read_patiently(1, 100, log.log_end_offset, at_least_one=True)
    assert (await slowly(log.reader.offset_for_timestamp, NOW, log.log_end_offset)).offset == 0
    assert (await slowly(log.reader.max_timestamp)).timestamp == NOW
    assert await slowly(log.reader.offset_for_timestamp, NOW + 1, log.log_end_offset) is None
    assert [one.first_offset for one in await log.reader.aborted_between(0, log.log_end_offset)] == [1]
    await log.reader.scrub(unpaced)
    assert {one for one in loads if not one.size} == set()


async def test_empty_segments_are_merged_by_the_next_compaction(loads: list[SealedSegment], log: Log) -> None:
    before = await last_values(log)
    for number in range(8):
        put(log, [(key, b"%d" % number * 30) for key in KEYS])
    expected = before | dict.fromkeys(KEYS, b"7" * 30)
    loads.clear()
    assert await clean(log, LATER)
    assert [one for one in loads if not one.size] == []
    assert len([one for one in log.segments.sealed if not one.size]) < 8
    assert await last_values(log) == expected
