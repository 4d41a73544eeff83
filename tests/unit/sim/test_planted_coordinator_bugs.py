"""Tests that the simulation finds planted bugs of the group and transaction coordinators, each under its own name.

Each test begins with a seed that finds its bug; SEARCH_SEEDS=60 in the environment searches for a new one.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from pykbroker.coordinator.endings import Endings
from pykbroker.coordinator.log import CoordinatorLog
from pykbroker.coordinator.markers import MarkerWriter
from pykbroker.core.group import commit
from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.classic.state import ClassicGroupState
from pykbroker.core.group.consumer.group import ConsumerGroup
from pykbroker.core.group.offsets import GroupOffsets
from pykbroker.core.log.transactions import OpenTransactions
from pykbroker.core.names import GROUP_METADATA_TOPIC
from pykbroker.core.txn import ending
from pykbroker.core.txn.transaction import Transaction
from pykbroker.machines.loader import Loader
from pykbroker.sim.scenario import Plan, run_scenario
from pykbroker.sim.simulation import Simulation
from pykbroker.storage.log.reader import LogReader
from tests.unit.sim.planted import answer_offset_fetches_at_once

pytestmark = pytest.mark.timeout(240)  # The tests need seconds of CPU time, which take longer on a busy machine.

SEEDS_MAX = 60
SECONDS, SECONDS_WITHOUT_FAULTS = 20, 6


async def found(simulation: Simulation, workload: str, kinds: tuple[str, ...]) -> list[str]:
    seconds = SECONDS if kinds else SECONDS_WITHOUT_FAULTS
    return (await run_scenario(simulation, Plan(seconds, kinds, workloads=(workload,)))).findings


async def in_groups(simulation: Simulation, *kinds: str) -> list[str]:
    return await found(simulation, "groups", kinds)


async def in_transactions(simulation: Simulation, *kinds: str) -> list[str]:
    return await found(simulation, "transactions", kinds)


async def offsets_are_fetched_before_they_are_durable(simulation: Simulation) -> list[str]:
    answer_offset_fetches_at_once()
    return await in_groups(simulation, "fail_syncs", "lose_power_midstep")


load_some = Loader.load_some


async def a_log_is_replayed_in_the_wrong_order(simulation: Simulation) -> list[str]:
    class Backwards:
        def __init__(self, machine):
            self.machine, self.entries = machine, []

        def replay(self, entry: Any):
            self.entries.append(entry)

    async def backwards(loader, machine, offset):
        if not isinstance(loader._log, CoordinatorLog):
            return await load_some(loader, machine, offset)
        collected = Backwards(machine)
        offset = await load_some(loader, cast(Any, collected), offset)
        for entry in reversed(collected.entries):
            machine.replay(entry)
        return offset

    Loader.load_some = backwards
    return await in_groups(simulation, "kill")


async def a_rebalance_keeps_the_generation(simulation: Simulation) -> list[str]:
    def same_again(group, wall_ms):
        group.generation = max(group.generation, 1)
        group.protocol = group.select_protocol()
        group.learn_topics()
        group.move(ClassicGroupState.COMPLETING_REBALANCE, wall_ms)

    ClassicGroup.begin_generation = same_again
    return await in_groups(simulation)


check_classic = commit.check_classic


async def commits_of_old_generations_are_accepted(simulation: Simulation) -> list[str]:
    def careless(group, member_id, instance_id, generation, *, transactional):
        if member_id in group.members:
            check_classic(group, member_id, instance_id, group.generation, transactional=transactional)

    commit.check_classic = careless
    return await in_groups(simulation, "stall")


async def partitions_are_assigned_before_they_are_revoked(simulation: Simulation) -> list[str]:
    ConsumerGroup.is_free = lambda group, topic_id, partition: True
    return await in_groups(simulation)


async def open_transactions_do_not_hold_the_last_stable_offset(simulation: Simulation) -> list[str]:
    OpenTransactions.last_stable_offset = lambda transactions, high_watermark: high_watermark
    return await in_transactions(simulation)


async def fetches_list_no_aborted_transactions(simulation: Simulation) -> list[str]:
    LogReader.aborted_transactions = lambda log, offset, data: []
    return await in_transactions(simulation)


write_markers = MarkerWriter._write


async def one_partition_gets_no_marker(simulation: Simulation) -> list[str]:
    async def forgetful(writer, marker, partitions):
        return await write_markers(writer, marker, frozenset(sorted(partitions)[: max(1, len(partitions) - 1)]))

    MarkerWriter._write = forgetful
    return await in_transactions(simulation)


async def end_txn_does_not_check_the_epoch(simulation: Simulation) -> list[str]:
    ending._has_valid_epoch = lambda *about: True
    return await in_transactions(simulation, "stall")


renewed = Transaction.renewed


async def a_takeover_does_not_bump_the_epoch(simulation: Simulation) -> list[str]:
    def unfenced(transaction, producer_id, epoch, timeout_ms, wall_ms):
        return renewed(transaction, producer_id, max(transaction.epoch, 0), timeout_ms, wall_ms)

    Transaction.renewed = unfenced
    return await in_transactions(simulation)


async def pending_offsets_are_returned_as_stable(simulation: Simulation) -> list[str]:
    GroupOffsets.is_pending = lambda offsets, *place: False
    return await in_transactions(simulation, "stall")


append_ending = Endings.append


async def markers_do_not_reach_the_group_coordinator(simulation: Simulation) -> list[str]:
    class NotAwaited:
        async def wait(self):
            return None

    def append(endings, topic, index, marker):
        if topic != GROUP_METADATA_TOPIC:
            return append_ending(endings, topic, index, marker)
        endings._log_of(topic, index).append_own(marker, endings._wall_ms(), None)
        return NotAwaited()

    Endings.append = append
    return await in_transactions(simulation)


@pytest.mark.parametrize(
    ("bug", "name", "first_seed"),
    [
        (offsets_are_fetched_before_they_are_durable, "fetched and then gone", 5),
        (a_log_is_replayed_in_the_wrong_order, "lost commit", 0),
        (a_rebalance_keeps_the_generation, "two owners", 1),
        (commits_of_old_generations_are_accepted, "zombie commit", 9),
        (partitions_are_assigned_before_they_are_revoked, "two owners", 0),
        (open_transactions_do_not_hold_the_last_stable_offset, "precommitted read", 0),
        (fetches_list_no_aborted_transactions, "aborted read", 0),
        (one_partition_gets_no_marker, "hanging transaction", 0),
        (end_txn_does_not_check_the_epoch, "zombie", 0),
        (a_takeover_does_not_bump_the_epoch, "zombie", 0),
        (pending_offsets_are_returned_as_stable, "copied twice", 29),
        (markers_do_not_reach_the_group_coordinator, "hanging transaction", 0),
    ],
)
def test_a_planted_bug_of_a_coordinator_is_found(expect_finding, bug, name, first_seed):
    expect_finding(bug, name, first_seed, SEEDS_MAX)
