"""Tests that the simulation finds planted bugs of groups, which authors of coordinators have made before."""

from __future__ import annotations

from functools import partial
from math import inf

import pytest

from pykbroker.coordinator import log
from pykbroker.core.group import commit
from pykbroker.core.group.classic import heartbeat
from pykbroker.core.group.consumer import membership
from pykbroker.core.group.consumer.deadlines import CONSUMER_SESSION
from pykbroker.core.group.shard import Due
from pykbroker.machines.loader import Loader
from pykbroker.sim.simulation import Simulation
from tests.unit.sim.planted import SEEDS_MAX, found

pytestmark = pytest.mark.timeout(240)  # The first seed may find nothing after a change in the order of tasks.

load_all = Loader.load


async def a_coordinator_loads_only_the_first_part_of_its_log(simulation: Simulation) -> list[str]:
    async def load(loader, machine, offset):
        once = isinstance(loader._log, log.CoordinatorLog)
        return await (loader.load_some if once else partial(load_all, loader))(machine, offset)

    log.LOAD_BYTES = 10_000
    Loader.load = load
    return await found(simulation, "groups", "kill")


async def heartbeats_do_not_renew_a_session(simulation: Simulation) -> list[str]:
    heartbeat.expect = commit.expect = lambda *about: None  # type: ignore[attr-defined]
    return await found(simulation, "groups")


expect = membership.expect  # type: ignore[attr-defined]


async def only_the_first_heartbeat_renews_a_session(simulation: Simulation) -> list[str]:
    def once(shard, group_id, member_id, value, step):
        if shard.timers.get(Due(CONSUMER_SESSION, group_id, member_id)) == inf:
            expect(shard, group_id, member_id, value, step)

    membership.expect = once  # type: ignore[attr-defined]
    return await found(simulation, "groups")


@pytest.mark.parametrize(
    ("bug", "name", "first_seed"),
    [
        (a_coordinator_loads_only_the_first_part_of_its_log, "lost commit", 1),
        (heartbeats_do_not_renew_a_session, "classic was dropped", 0),
        (only_the_first_heartbeat_renews_a_session, "consumer was dropped", 0),
    ],
)
def test_a_planted_bug_of_groups_is_found(expect_finding, bug, name, first_seed):
    expect_finding(bug, name, first_seed, SEEDS_MAX)
