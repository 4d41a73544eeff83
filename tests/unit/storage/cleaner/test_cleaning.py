"""Tests of the compaction of a log on disk: records that stay, reads during compaction, and segments that stay as they
are.
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykbroker.core.errors import ApiError
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.volume import Volume
from pykbroker.storage.cleaner.cleaning import Cleanable
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.log.log import Log
from pykbroker.storage.log.swap import Interrupted
from pykbroker.storage.segments.leftovers import offsets_of
from pykbroker.world.disk import FileSlice
from pykbroker.world.system_disk import SystemDisk
from tests.unit.storage.compacted import (
    COMPACTED,
    RETENTION_MS,
    clean,
    end,
    last_values,
    opened,
    put,
    stored,
    unpaced,
    view,
)
from tests.unit.storage.logs import DIRECTORY, NOW
from wire.records.builder import BatchBuilder
from wire.records.compression import Codec

KEYS = [b"a", b"b", b"c", b"d" * 30]


async def filled(disk: SystemDisk, rounds: int = 20) -> Log:
    disk.make_directory(DIRECTORY)
    log = await opened(disk)
    for number in range(rounds):
        put(log, [(key, b"%d" % number * 10) for key in KEYS])
    return log


async def replace(log: Log, **fields: object) -> None:
    log.configure(msgspec.structs.replace(log.config, **fields))


async def facts(log: Log) -> Cleanable:
    await log.flush()
    return await Cleanable.of(log, log.log_end_offset, NOW)


async def test_sealed_segments_are_compacted_and_the_active_one_stays(disk: SystemDisk) -> None:
    log = await filled(disk)
    before, active = await last_values(log), log.segments.active.base_offset
    segments, bytes_before = len(log.segments.sealed), log.size_bytes
    assert segments > 5
    assert await clean(log)
    assert log.cleaned_offset == active == log.segments.active.base_offset
    assert [one.size > 0 for one in log.segments.sealed] == [False] * (segments - 1) + [True]
    assert log.size_bytes < bytes_before / 3
    assert await last_values(log) == before
    found, _ = await stored(log)
    assert [one.base_offset for one in found if one.base_offset < active] == [active - 4]
    assert sorted(name for name in disk.names(DIRECTORY) if name.endswith((".swap", ".cleaned"))) == []
    deleted = log.take_deleted()
    assert len([name for name in deleted if name.endswith(".log.deleted")]) == segments
    assert not await clean(log)


async def test_a_file_slice_that_is_being_sent_is_not_changed_by_compaction(disk: SystemDisk) -> None:
    log = await filled(disk, 2000)
    await replace(log, segment_bytes=200_000)
    for number in range(3000):
        put(log, [(key, b"%d" % number * 10) for key in KEYS])
    data = await log.read_patiently(log.segments.sealed[-1].base_offset, 150_000, log.log_end_offset, at_least_one=True)
    assert isinstance(data, FileSlice)
    before = bytes(await data.file.read(data.offset, data.size))
    assert await clean(log)
    assert bytes(await data.file.read(data.offset, data.size)) == before


async def test_a_consumer_that_reads_during_compaction_misses_no_key(disk: SystemDisk) -> None:
    log = await filled(disk, 60)
    put(log, [(b"a", b"void")], 1)
    end(log, 1, commit=False)
    put(log, [(key, b"last") for key in KEYS[1:]], 2)
    end(log, 2, commit=True)
    for number in range(10):
        put(log, [(b"other", b"%d" % number * 20)])
    before, written = await last_values(log), set()
    for one in (await stored(log))[1]:
        written.add((one.offset, one.key, one.value))
    seen = 0

    async def look(_bytes: int) -> None:
        nonlocal seen
        _, found = await stored(log)
        assert view(found) == before
        assert {(one.offset, one.key, one.value) for one in found} <= written
        seen += 1

    assert await clean(log, pace=look)
    await look(0)
    assert seen > 20


async def test_records_of_an_open_transaction_are_not_compacted(disk: SystemDisk) -> None:
    log = await filled(disk, 6)
    undecided = log.log_end_offset
    put(log, [(b"a", b"undecided" * 10)], 1)
    for number in range(20):
        put(log, [(key, b"%d" % number * 10) for key in KEYS])
    assert (await facts(log)).dirty_range.end <= undecided
    await clean(log)
    found, _ = await stored(log, log.log_end_offset)
    assert len([one for one in found if one.base_offset >= undecided]) == 21
    end(log, 1, commit=False)
    assert (await facts(log)).dirty_range.end > undecided


async def test_keys_that_do_not_fit_into_memory_wait_for_the_next_round(disk: SystemDisk) -> None:
    disk.make_directory(DIRECTORY)
    log = await opened(disk)
    for number in range(60):
        put(log, [(b"key %d" % (number % 20), b"%d" % number * 20)])
    before, ends = await last_values(log), []
    while await clean(log, keys_max=7):
        ends.append(log.cleaned_offset)
        assert await last_values(log) == before
    assert len(ends) > 2
    assert ends == sorted(set(ends))
    assert ends[-1] == log.segments.active.base_offset


async def test_records_younger_than_min_compaction_lag_are_not_compacted(disk: SystemDisk) -> None:
    log = await filled(disk)
    assert (await facts(log)).is_due
    await replace(log, min_compaction_lag_ms=1)
    assert not (await facts(log)).is_due
    await log.flush()
    assert (await Cleanable.of(log, log.log_end_offset, NOW + 1)).is_due


async def test_a_log_past_max_compaction_lag_is_due_at_any_dirty_ratio(disk: SystemDisk) -> None:
    log = await filled(disk)
    await replace(log, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=100)
    assert not (await facts(log)).is_due
    assert not (await Cleanable.of(log, log.log_end_offset, NOW + 100)).is_due
    assert (await Cleanable.of(log, log.log_end_offset, NOW + 101)).is_due


async def test_records_above_the_high_watermark_or_the_recovery_point_are_not_compacted(disk: SystemDisk) -> None:
    log = await filled(disk)
    assert (await Cleanable.of(log, log.log_end_offset, NOW)).segments == []
    await log.flush()
    third = log.segments.sealed[2]
    assert (await Cleanable.of(log, third.next_offset - 1, NOW)).dirty_range.end == third.base_offset
    assert (await Cleanable.of(log, third.next_offset, NOW)).dirty_range.end == third.next_offset


async def test_compaction_stops_if_its_log_is_truncated_or_shrinks_meanwhile(disk: SystemDisk) -> None:
    log = await filled(disk)
    calls = 0

    async def shrink(_bytes: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            log.delete_records(log.segments.sealed[1].base_offset)
            await log.retain(NOW, log.log_end_offset)

    with pytest.raises(Interrupted):
        await clean(log, pace=shrink)
    assert not [name for name in disk.names(DIRECTORY) if name.endswith((".swap", ".cleaned"))]
    assert log.log_start_offset == log.segments.sealed[0].base_offset > 0
    assert len(await last_values(log)) == len(KEYS)


async def test_compaction_stops_if_its_log_is_truncated_meanwhile(disk: SystemDisk) -> None:
    log = await filled(disk)
    await replace(log, segment_bytes=5000)
    calls = 0
    middle = log.segments.sealed[3]
    before = (await stored(log, middle.base_offset + 1))[0]

    async def cut(_bytes: int) -> None:
        nonlocal calls
        calls += 1
        if calls == len(log.segments.sealed) + 6:
            await log.shrinker.truncate(middle.base_offset + 1)

    with pytest.raises(Interrupted):
        await clean(log, pace=cut)
    assert log.segments.active.base_offset == middle.base_offset
    assert [one.base_offset for one in (await stored(log))[0]] == [one.base_offset for one in before]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
async def test_a_batch_larger_than_the_read_size_of_compaction_is_compacted(disk: SystemDisk, codec: Codec) -> None:
    log = await filled(disk, 1)
    await replace(log, segment_bytes=3_000_000)
    values = [Random(number).randbytes(1_000_000) for number in range(4)]
    for value in values:
        builder = BatchBuilder(codec)
        builder.append(b"large", value, timestamp=NOW)
        builder.append(b"small", b"1", timestamp=NOW)
        log.appender.append_opened(await log.appender.open_off_loop(builder.build(), NOW), 0)
    put(log, [(b"small", b"2" * 900_000)])
    before = await last_values(log)
    assert await clean(log)
    assert await last_values(log) == before
    assert log.size_bytes < 4_000_000


@pytest.mark.parametrize("at", [1, 3, 9, 10, 11, 12, 13])
async def test_compaction_stops_if_its_log_is_deleted_meanwhile(disk: SystemDisk, at: int) -> None:
    log = await filled(disk)
    calls = 0

    async def abandon(_bytes: int) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            log.abandon()
            disk.rename(DIRECTORY, "gone")
            disk.make_directory(DIRECTORY)

    with pytest.raises((Interrupted, ApiError)):
        await clean(log, pace=abandon)
    assert disk.names(DIRECTORY) == []


async def test_damage_stops_compaction_and_no_record_is_lost(disk: SystemDisk) -> None:
    log = await filled(disk)
    await log.flush()
    path = log.segments.sealed[2].path(".log")
    file = disk.open(path)
    data = bytearray(await file.read(0, file.size))
    data[90] ^= 1
    file.truncate(0)
    file.append(data)
    names = [name for name in disk.names(DIRECTORY) if name.endswith(".log")]
    with pytest.raises(CorruptLog, match="checksum"):
        await clean(log)
    assert [name for name in disk.names(DIRECTORY) if name.endswith((".log", ".cleaned"))] == names


async def test_a_topic_that_is_no_longer_compacted_may_keep_its_gaps(disk: SystemDisk) -> None:
    log = await filled(disk)
    put(log, [(b"x", b"1" * 500)])
    put(log, [(b"x", b"2" * 500)])
    put(log, [(b"x", b"3" * 500)])
    assert await clean(log)
    before, cleaned = await last_values(log), log.cleaned_offset
    await log.close()
    config = msgspec.structs.replace(COMPACTED, cleanup_policy=("delete",), retention_ms=-1)
    for shutdown in (True, False):
        log = await opened(disk, config, clean=shutdown, cleaned_offset=cleaned)
        assert await last_values(log) == before
        await log.close()


async def test_small_segments_are_merged_by_compaction(disk: SystemDisk) -> None:
    log = await filled(disk, 40)
    await clean(log)
    before = len(log.segments.sealed)
    for number in range(40):
        put(log, [(key, b"%d" % number * 10) for key in KEYS])
    assert len(log.segments.sealed) > before + 10
    await clean(log)
    assert len(log.segments.sealed) < before + 10
    await log.close()
    again = await opened(disk, clean=True, cleaned_offset=log.cleaned_offset)
    assert (again.log_start_offset, again.log_end_offset) == (0, log.log_end_offset)
    assert len(await last_values(again)) == len(KEYS)


async def test_a_merged_segment_keeps_the_producer_snapshot_of_its_first_offset(disk: SystemDisk) -> None:
    """The snapshots of the other segments are deleted with them, as in Kafka."""
    log = await filled(disk, 40)
    await clean(log)
    for number in range(40):
        put(log, [(key, b"%d" % number * 10) for key in KEYS])
    before = [one.base_offset for one in log.segments.every()]
    assert snapshots(disk) == before[1:]
    await clean(log)
    after = [one.base_offset for one in log.segments.every()]
    assert (snapshots(disk), after[0]) == (after[1:], 0)
    assert 3 < len(after) < len(before) - 10
    deleted = [name.rpartition("/")[2] for name in log.take_deleted() if name.endswith(".snapshot.deleted")]
    assert sorted(int(name.partition(".")[0]) for name in deleted) == sorted(set(before) - set(after))


def snapshots(disk: SystemDisk) -> list[int]:
    return offsets_of(disk.names(DIRECTORY), ".snapshot")


async def test_retention_deletes_compacted_segments_with_both_cleanup_policies(disk: SystemDisk) -> None:
    log = await filled(disk)
    await replace(log, cleanup_policy=("compact", "delete"), retention_ms=1000)
    assert await clean(log)
    sealed, end_offset = list(log.segments.sealed), log.log_end_offset
    assert (sealed[0].size, sealed[-1].size > 0) == (0, True)
    await log.retain(NOW + 1000, end_offset)
    assert log.segments.sealed == sealed
    await log.retain(NOW + 1001, end_offset)
    assert log.log_start_offset == log.log_end_offset == end_offset
    put(log, [(b"a", b"again")])
    assert await last_values(log) == {b"a": b"again"}


async def test_retention_deletes_nothing_with_cleanup_policy_compact(disk: SystemDisk) -> None:
    log = await filled(disk)
    await replace(log, retention_ms=1000, retention_bytes=1)
    assert await clean(log)
    sealed = list(log.segments.sealed)
    await log.retain(NOW + 1001, log.log_end_offset)
    assert log.segments.sealed == sealed
    log.delete_records(log.segments.active.base_offset)
    await log.retain(NOW, log.log_end_offset)
    assert log.segments.sealed == []


STEP = st.one_of(
    st.tuples(
        st.just("put"),
        st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=60)), min_size=1, max_size=4),
        st.sampled_from([-1, -1, 1, 2]),
    ),
    st.tuples(st.just("end"), st.booleans(), st.sampled_from([1, 2])),
    st.tuples(st.just("clean"), st.sampled_from([2, 1000]), st.integers(0, 3)),
    st.tuples(st.just("restart"), st.booleans(), st.none()),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, max_size=60))
def test_a_consumer_finds_the_last_value_of_every_key(steps) -> None:
    trio.run(live, steps)


async def live(steps) -> None:
    """Compare the log with a model: the list of all written batches and the outcomes of their transactions."""
    disk = SimDisk(Volume())
    disk.make_directory(DIRECTORY)
    log, now_ms = await opened(disk), NOW
    decided: list[tuple[int, bytes, bytes | None]] = []
    pending: dict[int, list[tuple[int, bytes, bytes | None]]] = {}
    for kind, what, how in steps:
        if kind == "put":
            new = [(log.log_end_offset + at, *pair) for at, pair in enumerate(what)]
            put(log, what, how)
            (pending.setdefault(how, []) if how > 0 else decided).extend(new)
        elif kind == "end":
            new = pending.pop(how, [])
            end(log, how, commit=what)
            decided += new if what else []
        elif kind == "clean":
            now_ms += how * RETENTION_MS // 2
            await clean(log, now_ms, what, unpaced)
        else:
            sequences = {one.producer_id: (one.next_sequence, one.txn_first_offset) for one in log.producers.entries()}
            await log.close()
            log = await opened(disk, recovery_point=log.recovery_point, cleaned_offset=log.cleaned_offset, clean=what)
            assert {
                one.producer_id: (one.next_sequence, one.txn_first_offset) for one in log.producers.entries()
            } == sequences
        stable = min([log.log_end_offset, *(one[0][0] for one in pending.values())])
        expected: dict[bytes, bytes | None] = {}
        for offset, key, value in sorted(decided):
            if offset < stable:
                expected[key] = value
        assert await last_values(log) == {key: value for key, value in expected.items() if value is not None}
