"""Tests that the simulation of a cluster finds planted bugs of replication, each under its own name.

Each test begins with a seed that finds its bug; SEARCH_SEEDS=300 in the environment searches for a new one.
"""

from __future__ import annotations

from math import inf

import pytest

from pykbroker.apis.records.produce.settle import Unsettled
from pykbroker.client.outgoing import OutgoingConnection
from pykbroker.coordinator import endings
from pykbroker.core.log.epochs import LeaderEpochs
from pykbroker.core.log.refused_sequences import RefusedSequences
from pykbroker.core.log.verification import Verifications
from pykbroker.core.metadata import alter_partition, election
from pykbroker.core.replication import following
from pykbroker.core.replication.fetch_plan import FollowerPlan
from pykbroker.core.replication.leading import NO_LIMIT, Leading
from pykbroker.core.replication.repair import Repair, RepairStep
from pykbroker.core.replication.unwritable import Unwritable, UnwritableStep
from pykbroker.quorum import observer_log
from pykbroker.quorum.lifecycle import Lifecycle
from pykbroker.quorum.metadata_fetches import MetadataFetches
from pykbroker.replica.following import fetcher, followed
from pykbroker.replica.following.followed import Followed
from pykbroker.replica.partition import reading
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.partition.watch import Watch
from pykbroker.replica.replicas import Replicas
from pykbroker.sim import retransmission
from pykbroker.sim.cluster import full_disk, scenario
from pykbroker.sim.cluster.recovery import AFTER_FAULTS
from pykbroker.sim.simulation import Simulation
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.errors import LacksBegin
from pykbroker.storage.files.partition_directory import PartitionDirectory
from pykbroker.storage.log import appender, shrinker
from pykbroker.storage.recovery import producer_snapshot
from pykbroker.storage.recovery import recovery as log_recovery
from pykbroker.storage.recovery.rebuild import producers_at
from pykbroker.storage.segments.leftovers import offsets_of
from pykbroker.storage.segments.segment import file_name
from tests.unit.sim.planted import answer_offset_fetches_at_once, found_after_silence, found_in_cluster
from wire.error_codes import ErrorCode
from wire.messages.alter_partition import BrokerState
from wire.sentinels import NO_BROKER_EPOCH

pytestmark = pytest.mark.timeout(240)  # The tests need seconds of CPU time, which take longer on a busy machine.

SEEDS_MAX = 300
FILLS_SOON = AFTER_FAULTS._replace(fills_s_max=10.0)
"""The limits with which an ISR that is not full is soon a finding, where the bug keeps it so for ever."""
FULL_SECONDS, FULL_WRITES_S_MAX = 1, 12
"""The length of a run without other faults, before a disk fills up, and the time for writes to go on."""
AIMED_SECONDS = 5
"""The length of a run with a fault that waits for the moment at which the bug does harm."""


async def acknowledged_once_the_leader_has_it(simulation: Simulation) -> list[str]:
    may_acknowledge = Partition.may_acknowledge
    Partition.may_acknowledge = lambda partition, end, acks_all: may_acknowledge(partition, end, False)
    Leading.is_committed = lambda leading, end, high_watermark: True
    return await found_in_cluster(simulation, "cut_leader", "kill")


async def the_high_watermark_ignores_replicas_that_are_joining(simulation: Simulation) -> list[str]:
    def of_committed_isr(leading, *_):
        return min(
            [state.log_end_offset for id_, state in leading.followers.items() if id_ in leading.isr] or [NO_LIMIT]
        )

    Leading.limit = of_committed_isr
    return await found_in_cluster(simulation, "slow_join", seconds=4, pace_s=0.1)


async def the_isr_shrinks_before_the_answer(simulation: Simulation) -> list[str]:
    Leading.maximal_isr = property(lambda leading: leading.isr if leading.pending is None else leading.pending.members)
    return await found_in_cluster(simulation, "cut_leader", "isolate")


async def followers_truncate_to_the_high_watermark(simulation: Simulation) -> list[str]:
    vars(followed)["start_offset"] = lambda epochs, high_watermark, end: min(high_watermark, end)
    return await found_in_cluster(simulation, "elect_leaders", "cut_leader", "depose_twice", seconds=5, pace_s=0.1)


async def a_late_answer_of_an_old_epoch_is_appended(simulation: Simulation) -> list[str]:
    decide = following.decide
    vars(fetcher)["decide"] = lambda asked, current, *rest: decide(asked, current and asked, *rest)
    position, wanted = vars(Followed)["position"].fget, vars(Followed)["wanted"].fget

    def of_any_epoch(one: Followed):
        epoch = one.leader_epoch
        if not one.partition.is_leader:
            one.leader_epoch = one.partition.leader_epoch
        try:
            return position(one)
        finally:
            one.leader_epoch = epoch

    Followed.position = property(of_any_epoch)
    Followed.wanted = property(lambda one: wanted(one) if one.leader_epoch == one.partition.leader_epoch else None)
    FollowerPlan.remove = lambda plan, key: plan._due.pop(key, None)
    return await found_in_cluster(simulation, "depose_twice", seconds=6, pace_s=0.1)


async def an_old_broker_epoch_joins_the_isr(simulation: Simulation) -> list[str]:
    Leading._is_eligible = staticmethod(lambda broker_id, state, active: broker_id in active)
    eligible = alter_partition._eligible
    alter_partition._eligible = lambda context, placed, member: eligible(
        context, placed, BrokerState(member.broker_id, NO_BROKER_EPOCH)
    )
    return await found_in_cluster(simulation, "lose_joining", seconds=4, pace_s=0.1)


async def a_replica_joins_the_isr_before_its_directory_is_reported(simulation: Simulation) -> list[str]:
    Repair._report_or_fetch = lambda *_: RepairStep.FETCH
    alter_partition._eligible = lambda context, placed, member: context.active(member.broker_id)
    return await found_in_cluster(simulation, "wipe_source", seconds=AIMED_SECONDS)


async def an_unclean_replica_stays_eligible(simulation: Simulation) -> list[str]:
    eligible = election._eligible
    election._eligible = lambda partition, isr, rules, lost: eligible(partition, isr, rules, None)
    return await found_in_cluster(simulation, "lose_eligible", seconds=AIMED_SECONDS)


async def a_new_leader_takes_its_log_end_as_high_watermark(simulation: Simulation) -> list[str]:
    lead = Partition.lead

    def with_all_committed(partition, placed):
        begins = not partition.is_leader or placed.leader_epoch != partition.leader_epoch
        lead(partition, placed)
        if begins and partition.log is not None:
            partition.raise_high_watermark(partition.log.log_end_offset)

    Partition.lead = with_all_committed
    return await found_in_cluster(simulation, "cut_leader", seconds=6, pace_s=0.1)


async def metadata_is_applied_before_it_is_committed(simulation: Simulation) -> list[str]:
    MetadataFetches.high_watermark = property(lambda fetches: fetches.log_end_offset)
    return await found_in_cluster(simulation, "lose_metadata", seconds=AIMED_SECONDS, fsync=True)


async def strays_are_judged_by_an_old_image(simulation: Simulation) -> list[str]:
    async def at_once(lifecycle):
        await lifecycle._beat_patiently()

    Lifecycle.wait_caught_up = at_once
    return await found_in_cluster(simulation, "start_slowly", seconds=AIMED_SECONDS)


async def a_topic_that_is_created_again_takes_over_the_old_log(simulation: Simulation) -> list[str]:
    is_stray, open_own = Replicas._is_stray, LogDirectory._open_own
    Replicas._is_stray = lambda replicas, topics, found: is_stray(replicas, topics, PartitionDirectory(found.key, None))

    async def open_by_name(directory, key, topic_id, config):
        directory._topic_ids[key] = topic_id
        return await open_own(directory, key, topic_id, config)

    LogDirectory._open_own = open_by_name
    return await found_in_cluster(simulation, "recreate_topic", "kill", seconds=8, pace_s=0.3)


async def a_marker_is_acknowledged_and_lost(simulation: Simulation) -> list[str]:
    async def at_once(marker):
        pass

    endings._Appended.wait = at_once
    return await found_in_cluster(simulation, "strand_leader", workload="transactions", seconds=6, pace_s=0.1)


async def any_marker_ends_a_verification(simulation: Simulation) -> list[str]:
    Verifications.end = lambda pending, producer_id, _: pending._by_producer.pop(producer_id, None)
    return await found_in_cluster(simulation, workload="transactions", seconds=3, distant=True)


async def followers_do_not_take_over_producer_states(simulation: Simulation) -> list[str]:
    append_run = appender.LogAppender._append_run

    def without_producers(log, data, run):
        remember = vars(appender)["remember"]
        vars(appender)["remember"] = lambda *about: None
        try:
            append_run(log, data, run)
        finally:
            vars(appender)["remember"] = remember

    appender.LogAppender._append_run = without_producers
    return await found_in_cluster(simulation, "cut_leader", "mute", "kill")


async def refused_sequences_are_forgotten(simulation: Simulation) -> list[str]:
    RefusedSequences.note = lambda *_: None
    return await found_in_cluster(simulation, "starve_isrs", seconds=8, pace_s=0.3)


def keep_epochs() -> None:
    LeaderEpochs.clear = lambda epochs: None


async def epochs_are_kept_when_a_log_begins_anew(simulation: Simulation) -> list[str]:
    keep_epochs()
    return await found_in_cluster(simulation, "pass_follower", seconds=AIMED_SECONDS, pace_s=0.1)


async def recovery_drops_what_its_epochs_do_not_explain(simulation: Simulation) -> list[str]:
    keep_epochs()
    beginning = log_recovery._beginning

    async def drop_all(opening, bases, epochs, *, clean):
        try:
            return await beginning(opening, bases, epochs, clean=clean)
        except LacksBegin:
            await log_recovery._drop(opening, bases)
            return []

    log_recovery._beginning = drop_all
    return await found_in_cluster(simulation, "pass_follower", seconds=AIMED_SECONDS, pace_s=0.1)


async def a_snapshot_is_kept_when_a_log_begins_anew(simulation: Simulation) -> list[str]:
    shrinker.LogShrinker._drop_snapshots = lambda log, end: None

    async def of_newest_snapshot(disk, directory, segments, offset):
        taken = max((one for one in offsets_of(disk.names(directory), ".snapshot") if one <= offset), default=None)
        if taken is None:
            return await producers_at(disk, directory, segments, offset)
        file = disk.open(file_name(directory, taken, ".snapshot"))
        return producer_snapshot.decode(await file.read(0, file.size))

    vars(shrinker)["producers_at"] = of_newest_snapshot
    return await found_in_cluster(simulation, "pass_follower", seconds=AIMED_SECONDS, pace_s=0.1)


async def silent_connections_and_those_of_requests_that_time_out_are_kept(simulation: Simulation) -> list[str]:
    OutgoingConnection.expires_at = property(lambda connection: inf)
    vars(retransmission)["SILENT_S_MAX"] = retransmission.GIVE_UP_S
    return await found_after_silence(simulation)


async def offsets_are_fetched_before_they_are_committed(simulation: Simulation) -> list[str]:
    answer_offset_fetches_at_once()
    return await found_in_cluster(simulation, "cut_leader", "kill", workload="groups")


async def a_replica_joins_the_isr_at_the_high_watermark(simulation: Simulation) -> list[str]:
    grown = Leading.grown

    def of_any_start(leading, *args):
        start, leading.epoch_start = leading.epoch_start, 0
        try:
            return grown(leading, *args)
        finally:
            leading.epoch_start = start

    Leading.grown = of_any_start
    return await found_in_cluster(simulation, "join_behind", seconds=4, pace_s=0.1)


async def the_high_watermark_is_kept_when_a_log_is_cut(simulation: Simulation) -> list[str]:
    Partition.lower_high_watermark = lambda partition, end: None
    vars(scenario)["AFTER_FAULTS"] = FILLS_SOON
    return await found_in_cluster(simulation, "elect_uncleanly", seconds=4, pace_s=0.1)


async def the_isr_is_applied_before_the_answer(simulation: Simulation) -> list[str]:
    propose = Leading._propose

    def at_once(leading, members, epoch):
        leading.isr = tuple(members)
        return propose(leading, members, epoch)

    Leading._propose = at_once
    return await found_in_cluster(simulation, "cut_leader", "isolate")


async def an_acknowledgement_comes_in_a_later_epoch(simulation: Simulation) -> list[str]:
    def by_offset(one: Unsettled) -> None:
        if not one.result.error_code and one.partition.high_watermark < one.offset:
            one.result.error_code = ErrorCode.REQUEST_TIMED_OUT

    async def committed(partition: Partition, offset: int, leader_epoch: int = -1) -> None:
        watch = Watch([partition.watches])
        while partition.high_watermark < offset:
            await watch.wait()

    Partition.wait_committed, Unsettled.check = committed, by_offset
    return await found_in_cluster(simulation, "cut_leader", "isolate", seconds=10)


async def a_leader_compares_no_epochs_with_its_followers(simulation: Simulation) -> list[str]:
    vars(reading)["diverges"] = lambda log, asked: None
    return await found_in_cluster(simulation, "cut_leader", pace_s=1.0)


async def a_follower_cuts_its_log_without_its_own_epochs(simulation: Simulation) -> list[str]:
    vars(following)["truncation_offset"] = lambda diverging, epochs, end: min(diverging.end_offset, end)
    vars(scenario)["AFTER_FAULTS"] = FILLS_SOON
    return await found_in_cluster(simulation, "fork_epochs", seconds=6, pace_s=0.1)


async def a_change_of_a_stale_isr_is_made(simulation: Simulation) -> list[str]:
    epoch_fault = alter_partition.epoch_fault

    def of_any_partition_epoch(*args):
        fault = epoch_fault(*args)
        return None if fault is ErrorCode.INVALID_UPDATE_VERSION else fault

    alter_partition.epoch_fault = of_any_partition_epoch
    return await found_in_cluster(simulation, "join_late", seconds=6, pace_s=0.1)


async def found_on_a_full_disk(simulation: Simulation) -> list[str]:
    vars(full_disk)["WRITES_S_MAX"] = FULL_WRITES_S_MAX
    return await found_in_cluster(simulation, "fill_leader", seconds=FULL_SECONDS)


async def a_full_disk_keeps_its_leaderships(simulation: Simulation) -> list[str]:
    Unwritable.step = lambda *_, **__: UnwritableStep.WAIT
    return await found_on_a_full_disk(simulation)


async def a_full_disk_takes_no_metadata(simulation: Simulation) -> list[str]:
    observer_log.ObserverLog.append = lambda log, records: log._journal.append_stored(records)
    return await found_on_a_full_disk(simulation)


async def a_replica_with_a_full_disk_is_fetched_anew(simulation: Simulation) -> list[str]:
    note_refused_append = Partition.note_refused_append

    def note_damage(partition):
        note_refused_append(partition)
        partition.repair = Repair()
        partition.broker.damage.set()

    Partition.note_refused_append = note_damage
    return await found_on_a_full_disk(simulation)


FOUND = [
    (acknowledged_once_the_leader_has_it, "lost write", 0),
    (the_high_watermark_ignores_replicas_that_are_joining, "high watermark above the ISR", 1),
    (the_isr_shrinks_before_the_answer, "two values at one offset", 0),
    (followers_truncate_to_the_high_watermark, "high watermark above the ISR", 23),
    (a_late_answer_of_an_old_epoch_is_appended, "high watermark above the ISR", 3),
    (an_old_broker_epoch_joins_the_isr, "high watermark above the ISR", 0),
    (a_new_leader_takes_its_log_end_as_high_watermark, "high watermark above the ISR", 5),
    (a_topic_that_is_created_again_takes_over_the_old_log, "the replicas of ('brief'", 47),
    (a_marker_is_acknowledged_and_lost, "torn transaction", 0),
    (any_marker_ends_a_verification, "unexplained abort", 1),
    (followers_do_not_take_over_producer_states, "OUT_OF_ORDER_SEQUENCE_NUMBER", 1),
    (refused_sequences_are_forgotten, "OUT_OF_ORDER_SEQUENCE_NUMBER", 0),
    (offsets_are_fetched_before_they_are_committed, "fetched and then gone", 0),
    (silent_connections_and_those_of_requests_that_time_out_are_kept, "does not serve within 5 s", 1),
    (an_unclean_replica_stays_eligible, "stays in the ELR", 0),
    (a_replica_joins_the_isr_before_its_directory_is_reported, "does not serve within 10 s", 0),
    (metadata_is_applied_before_it_is_committed, "an image of uncommitted metadata", 0),
    (strays_are_judged_by_an_old_image, "is assigned to it", 0),
    (a_replica_joins_the_isr_at_the_high_watermark, "is in the ISR of", 0),
    (the_high_watermark_is_kept_when_a_log_is_cut, "high watermark above the log", 30),
    (the_isr_is_applied_before_the_answer, "two values at one offset", 0),
    (an_acknowledgement_comes_in_a_later_epoch, "lost write", 0),
    (a_leader_compares_no_epochs_with_its_followers, "the replicas of", 2),
    (a_follower_cuts_its_log_without_its_own_epochs, "has not filled its ISRs", 1),
    (a_change_of_a_stale_isr_is_made, "is in the ISR of", 3),
    (epochs_are_kept_when_a_log_begins_anew, "aside as damaged, though its disk has lost nothing", 2),
    (recovery_drops_what_its_epochs_do_not_explain, "lost write", 0),
    (a_snapshot_is_kept_when_a_log_begins_anew, "two last batches of producer", 6),
    (a_full_disk_keeps_its_leaderships, "stops writes", 0),
    (a_full_disk_takes_no_metadata, "stops writes", 0),
    (a_replica_with_a_full_disk_is_fetched_anew, "has set its logs aside", 0),
]


@pytest.mark.parametrize(("bug", "name", "first_seed"), FOUND)
def test_a_planted_bug_of_replication_is_found(expect_finding, bug, name, first_seed):
    expect_finding(bug, name, first_seed, SEEDS_MAX)
