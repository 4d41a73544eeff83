"""Tests that the simulation of a cluster finds planted bugs of the authorizer, each under its own name."""

from __future__ import annotations

import pytest

from pykbroker.core.security.acl.authorizer import AclAuthorizer
from pykbroker.sim.simulation import Simulation
from tests.unit.sim.planted import found_in_cluster

pytestmark = pytest.mark.timeout(240)  # The tests need seconds of CPU time, which take longer on a busy machine.

SEEDS_MAX = 60
SECONDS = 3
IMAGES_LATE = 12
"""The number of images that a broker with a planted bug applies before the ACLs. It serves clients after some six."""

update = AclAuthorizer.update


async def a_change_of_acls_leaves_remembered_decisions(simulation: Simulation) -> list[str]:
    def remember(authorizer, acls):
        decisions = dict(authorizer._decisions)
        update(authorizer, acls)
        authorizer._decisions.update(decisions)

    AclAuthorizer.update = remember
    return await found_in_cluster(simulation, "restart", workload="acls", seconds=SECONDS)


async def a_broker_serves_before_it_has_loaded_the_acls(simulation: Simulation) -> list[str]:
    images: dict[int, int] = {}

    def update_late(authorizer, acls):
        images[id(authorizer)] = images.get(id(authorizer), 0) + 1
        update(authorizer, acls if images[id(authorizer)] > IMAGES_LATE else {})

    AclAuthorizer.update = update_late
    return await found_in_cluster(simulation, "restart", workload="acls", seconds=SECONDS)


@pytest.mark.parametrize(
    ("bug", "name", "first_seed"),
    [
        (a_change_of_acls_leaves_remembered_decisions, "the controller permits", 1),
        (a_broker_serves_before_it_has_loaded_the_acls, "which it has denied before", 1),
    ],
)
def test_a_planted_bug_of_the_authorizer_is_found(expect_finding, bug, name, first_seed):
    expect_finding(bug, name, first_seed, SEEDS_MAX)
