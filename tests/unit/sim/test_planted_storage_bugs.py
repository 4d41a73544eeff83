"""Tests that the simulation finds planted bugs of the storage, which authors of logs have made before."""

from __future__ import annotations

import pytest

from pykbroker.core.compaction.compactor import Round
from pykbroker.core.log.producers import Producers
from pykbroker.sim.simulation import Simulation
from pykbroker.storage.files.errors import patiently
from pykbroker.storage.log import shrinker, swap
from pykbroker.storage.log.flusher import Flusher
from pykbroker.storage.log.state import LogState
from pykbroker.storage.recovery import recovery
from pykbroker.storage.segments.segment import ActiveSegment, Segment
from tests.unit.sim.planted import SEEDS_MAX, found

pytestmark = pytest.mark.timeout(240)  # The first seed may find nothing after a change in the order of tasks.

index = ActiveSegment._index


async def an_index_entry_points_after_its_batch(simulation: Simulation) -> list[str]:
    def ahead(segment, last_offset, position):
        index(segment, segment.next_offset - 1, position)

    ActiveSegment._index = ahead
    Segment._verified = lambda segment, entry, headers: entry[1] if entry else 0
    return await found(simulation, "log", "kill", "restart")


roll = LogState.roll


async def rolling_a_segment_forgets_the_producers(simulation: Simulation) -> list[str]:
    def forgetful(one):
        one.producers = Producers()
        return roll(one)

    LogState.roll = forgetful
    return await found(simulation, "log", "lose_segments", "slow_disk", "kill")


async def recovery_ignores_producers_after_the_last_snapshot(simulation: Simulation) -> list[str]:
    recovery.recall = lambda producers, batch: None  # type: ignore[attr-defined]
    return await found(simulation, "log", "kill")


sync = Flusher._sync


async def the_recovery_point_includes_writes_after_the_fsync_began(simulation: Simulation) -> list[str]:
    async def generous(flusher, target):
        await sync(flusher, target)
        flusher.recovery_point = flusher._segments.active.next_offset

    Flusher._sync = generous
    return await found(simulation, "log", "lose_power", "lose_power_midstep")


async def the_directory_of_a_new_segment_is_not_fsynced(simulation: Simulation) -> list[str]:
    async def files_only(flusher, sealed, active):
        for segment in (*sealed, active):
            await patiently(segment.require_loaded)
            await flusher._synced(segment.file.sync())
        await flusher.sync_directory()

    Flusher._make_durable = files_only
    return await found(simulation, "log", "lose_power", "lose_power_midstep")


kept = Round._kept


async def compaction_drops_the_first_record_of_a_batch(simulation: Simulation) -> list[str]:
    Round._kept = lambda compaction, base, all_of_it, expired: kept(compaction, base, all_of_it, expired)[1:]
    return await found(simulation, "log", compacted=True)


async def compacted_segments_are_used_before_their_names_are_durable(simulation: Simulation) -> list[str]:
    async def hasty(opening, segments, flusher, sources, cleaned):
        swap._rename(opening, cleaned, ".cleaned", ".swap")
        segments.put(sources, cleaned)
        swap._rename(opening, cleaned, ".swap", "")
        cleaned.unwritten = False
        opening.loaded.use(cleaned)

    shrinker.swap = hasty  # type: ignore[attr-defined]
    return await found(simulation, "log", "lose_power", "lose_power_midstep", compacted=True)


@pytest.mark.parametrize(
    ("bug", "name", "first_seed"),
    [
        (an_index_entry_points_after_its_batch, "skipped", 0),
        (rolling_a_segment_forgets_the_producers, "duplicate", 4),
        (recovery_ignores_producers_after_the_last_snapshot, "duplicate", 4),
        (the_recovery_point_includes_writes_after_the_fsync_began, "lost write", 10),
        (the_directory_of_a_new_segment_is_not_fsynced, "lost write", 3),
        (compaction_drops_the_first_record_of_a_batch, "lost write", 2),
        (compacted_segments_are_used_before_their_names_are_durable, "two values", 22),
    ],
)
def test_a_planted_bug_of_the_storage_is_found(expect_finding, bug, name, first_seed):
    expect_finding(bug, name, first_seed, SEEDS_MAX)
