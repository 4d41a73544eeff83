"""Tests that the simulation finds planted bugs of a broker within a few seeds, each under its own name.

Each test begins with a seed that finds its bug; SEARCH_SEEDS=40 in the environment searches for a new one.
"""

from __future__ import annotations

import pytest

from pykbroker.core.log.producers import Producers
from pykbroker.core.replication.leading import Leading
from pykbroker.sim.scenario import Plan, run_scenario
from pykbroker.sim.simulation import Simulation
from pykbroker.storage.files import lost_writes
from pykbroker.storage.log.flusher import Flusher
from pykbroker.storage.segments.segment import ActiveSegment
from pykbroker.storage.segments.walk import Walk

pytestmark = pytest.mark.timeout(240)  # The tests need seconds of CPU time, which take longer on a busy machine.

SEEDS_MAX = 40
SECONDS = 10


async def found(simulation: Simulation, *kinds: str) -> list[str]:
    return (await run_scenario(simulation, Plan(SECONDS, kinds))).findings


async def acknowledged_before_it_is_durable(simulation: Simulation) -> list[str]:
    Flusher._make_durable = lambda flusher, sealed, active: flusher.sync_directory()
    return await found(simulation, "lose_power")


async def consumed_before_it_is_durable(simulation: Simulation) -> list[str]:
    committed = Leading.committed
    Leading.committed = lambda leading, end_offset, _: committed(leading, end_offset, end_offset)
    return await found(simulation, "fail_syncs")


async def a_failed_fsync_is_forgotten_after_a_restart(simulation: Simulation) -> list[str]:
    lost_writes.note = lambda disk: None
    return await found(simulation, "fail_syncs")


async def recovery_keeps_torn_batches(simulation: Simulation) -> list[str]:
    Walk._check_crc = property(lambda walk: False, lambda walk, check_crc: None)
    return await found(simulation, "lose_power", "lose_power_midstep")


async def duplicates_are_written_again(simulation: Simulation) -> list[str]:
    Producers.check = lambda producers, *batch: None
    return await found(simulation, "mute", "kill")


async def errors_of_a_full_disk_are_ignored(simulation: Simulation) -> list[str]:
    init = ActiveSegment.__init__

    class IgnoresErrors:
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
        init(segment, base_offset, IgnoresErrors(file), *args)

    ActiveSegment.__init__ = deaf
    return await found(simulation, "fill_disk", "kill")


@pytest.mark.parametrize(
    ("bug", "name", "first_seed"),
    [
        (acknowledged_before_it_is_durable, "lost write", 5),
        (consumed_before_it_is_durable, "two values at one offset", 35),
        (a_failed_fsync_is_forgotten_after_a_restart, "lost write", 13),
        (recovery_keeps_torn_batches, "damaged bytes", 13),
        (duplicates_are_written_again, "duplicate", 0),
        (errors_of_a_full_disk_are_ignored, "lost write", 0),
    ],
)
def test_a_planted_bug_of_a_broker_is_found(expect_finding, bug, name, first_seed):
    expect_finding(bug, name, first_seed, SEEDS_MAX)
