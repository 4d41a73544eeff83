"""The alarm works: brokers that lie are found within a few seeds, each by the name of its lie.

A test begins with a seed that is known to find its bug; SEARCH_SEEDS=40 in the environment looks for it anew.
"""

from __future__ import annotations

import pytest

from pykbroker.core.log.producers import Producers
from pykbroker.core.partition.leadership import Leadership
from pykbroker.sim.scenario import Plan, run_scenario
from pykbroker.sim.simulation import Simulation
from pykbroker.storage.files import lost_writes
from pykbroker.storage.log.flusher import Flusher
from pykbroker.storage.segments.segment import ActiveSegment
from pykbroker.storage.segments.walk import Walk

pytestmark = pytest.mark.timeout(240)  # it needs seconds of a processor alone, of which a busy machine gives little

SEEDS_MAX = 40
SECONDS = 10


async def found(simulation: Simulation, *kinds: str) -> list[str]:
    return (await run_scenario(simulation, Plan(SECONDS, kinds))).findings


async def acknowledged_before_it_is_durable(simulation: Simulation) -> list[str]:
    Flusher._make_durable = lambda flusher, sealed, active: flusher.sync_directory()
    return await found(simulation, "lose_power")


async def consumed_before_it_is_durable(simulation: Simulation) -> list[str]:
    advance = Leadership.advance
    Leadership.advance = lambda leadership, end_offset, _: advance(leadership, end_offset, end_offset)
    return await found(simulation, "fail_syncs")


async def what_a_failed_fsync_left_is_believed(simulation: Simulation) -> list[str]:
    lost_writes.note = lambda disk: None
    return await found(simulation, "fail_syncs")


async def torn_batches_are_kept(simulation: Simulation) -> list[str]:
    Walk._check_crc = property(lambda walk: False, lambda walk, check_crc: None)
    return await found(simulation, "lose_power", "lose_power_midstep")


async def batches_that_come_again_are_written_again(simulation: Simulation) -> list[str]:
    Producers.check = lambda producers, *batch: None
    return await found(simulation, "mute", "kill")


async def a_full_disk_is_not_noticed(simulation: Simulation) -> list[str]:
    init = ActiveSegment.__init__

    class Deaf:
        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def append(self, data):
            try:
                return self.file.append(data)
            except OSError:
                return self.file.size

    def deaf(segment, base_offset, file, *args):
        init(segment, base_offset, Deaf(file), *args)

    ActiveSegment.__init__ = deaf
    return await found(simulation, "fill_disk", "kill")


@pytest.mark.parametrize(
    ("bug", "name", "first_seed"),
    [
        (acknowledged_before_it_is_durable, "lost write", 5),
        (consumed_before_it_is_durable, "two values at one offset", 16),
        (what_a_failed_fsync_left_is_believed, "lost write", 4),
        (torn_batches_are_kept, "damaged bytes", 8),
        (batches_that_come_again_are_written_again, "duplicate", 0),
        (a_full_disk_is_not_noticed, "lost write", 0),
    ],
)
def test_a_planted_bug_is_found(expect_finding, bug, name, first_seed):
    expect_finding(bug, name, first_seed, SEEDS_MAX)
