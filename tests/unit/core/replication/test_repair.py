"""The steps of the repair of a replica, as its broker reads the metadata after each."""

from __future__ import annotations

from msgspec.structs import replace

from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.repair import Repair, RepairPhase, RepairStep, ReplicaStanding
from wire.sentinels import NO_LEADER

NODE, LEADER, EPOCH = 2, 1, 5
ALL = PartitionImage((1, 2, 3), (1, 2, 3), LEADER, EPOCH, 0, ())
OUT = replace(ALL, isr=(1, 3))
HERE = "here"
"""The log directory of the present log, which is online."""
OFFLINE, LOST = "offline", "lost"


def step(repair: Repair, placed: PartitionImage, directory: str, fetched_epoch: int = EPOCH) -> RepairStep:
    """Return the next step of broker 2's replica, which the metadata has in this directory."""
    standing = ReplicaStanding(
        in_isr=NODE in placed.isr, is_online=directory == HERE, is_reported=directory == HERE, is_lost=directory == LOST
    )
    return repair.step(placed, NODE, standing, fetched_epoch)


def begun(placed: PartitionImage, directory: str) -> Repair:
    """Return the repair of a replica whose new log has begun."""
    damaged = Repair()
    assert step(damaged, placed, directory) is RepairStep.BEGIN
    return Repair(RepairPhase.BEGUN)


def test_a_replica_is_reported_before_its_first_fetch_and_is_complete_once_it_is_in_the_isr() -> None:
    repair, fenced = Repair(), replace(OUT, leader_epoch=EPOCH + 1)
    assert step(repair, ALL, HERE) is RepairStep.LEAVE
    assert step(repair, fenced, LOST) is RepairStep.BEGIN
    repair = Repair(RepairPhase.BEGUN)
    assert step(repair, fenced, LOST) is RepairStep.REPORT
    assert not repair.is_fetched
    assert step(repair, fenced, HERE) is RepairStep.FETCH
    assert repair.is_fetched
    assert step(repair, fenced, HERE, EPOCH + 1) is RepairStep.WAIT
    assert step(repair, replace(fenced, isr=(1, 2, 3)), HERE, EPOCH + 1) is RepairStep.END


def test_a_replica_that_is_elected_before_its_broker_knows_that_it_joined_the_isr_is_complete() -> None:
    repair, fenced = Repair(RepairPhase.BEGUN), replace(OUT, leader_epoch=EPOCH + 1)
    assert step(repair, fenced, HERE) is RepairStep.FETCH
    assert step(repair, replace(fenced, isr=(2,), leader=NODE), HERE, EPOCH + 1) is RepairStep.END


def test_a_lost_directory_in_the_leader_epoch_of_the_last_fetch_is_reported_to_begin_another_epoch() -> None:
    """A heartbeat has reported the failed directory, which begins no leader epoch."""
    repair = Repair()
    assert step(repair, ALL, OFFLINE) is RepairStep.WAIT
    assert step(repair, OUT, OFFLINE) is RepairStep.LEAVE
    assert step(repair, replace(OUT, leader_epoch=EPOCH + 1), LOST) is RepairStep.BEGIN


def test_a_former_leader_and_a_broker_that_starts_have_fetched_in_no_current_epoch() -> None:
    assert step(Repair(), OUT, OFFLINE, EPOCH - 1) is RepairStep.BEGIN
    assert step(Repair(), OUT, OFFLINE, -1) is RepairStep.BEGIN


def test_under_kafkas_controller_a_replica_is_verified_before_it_is_reported() -> None:
    """The report of the loss has begun no leader epoch: a late fetch may put the empty replica into the ISR."""
    repair = begun(OUT, LOST)
    assert step(repair, OUT, LOST) is RepairStep.FETCH
    assert step(repair, OUT, LOST) is RepairStep.WAIT
    assert step(repair, ALL, LOST) is RepairStep.VERIFY
    repair.phase = RepairPhase.COMPLETE
    assert step(repair, ALL, LOST) is RepairStep.REPORT
    assert step(repair, OUT, LOST) is RepairStep.WAIT
    assert step(repair, ALL, LOST) is RepairStep.VERIFY
    assert step(repair, OUT, HERE) is RepairStep.LEAVE
    repair.phase = RepairPhase.COMPLETE
    assert step(repair, ALL, HERE) is RepairStep.END


def test_a_new_leader_epoch_fences_late_fetches_before_the_first_fetch_of_the_new_log() -> None:
    repair = begun(OUT, LOST)
    assert step(repair, replace(OUT, leader_epoch=EPOCH + 1), LOST) is RepairStep.REPORT


def test_a_replica_that_a_late_fetch_put_into_the_isr_before_a_start_is_verified() -> None:
    repair = Repair(RepairPhase.BEGUN)
    assert step(repair, ALL, LOST, -1) is RepairStep.FETCH
    assert step(repair, ALL, LOST, -1) is RepairStep.VERIFY


def test_a_replica_without_another_leader_is_not_replaced() -> None:
    repair = Repair()
    assert step(repair, replace(ALL, isr=(2,), leader=NO_LEADER), LOST) is RepairStep.WAIT
    assert step(repair, replace(ALL, isr=(), leader=NO_LEADER, leader_epoch=EPOCH + 1), LOST) is RepairStep.WAIT
    assert repair.is_last
    assert step(repair, replace(OUT, leader_epoch=EPOCH + 2), LOST) is RepairStep.BEGIN


def test_the_only_replica_is_never_replaced() -> None:
    only = PartitionImage((2,), (2,), NODE, EPOCH, 0, ())
    assert step(Repair(), only, HERE) is RepairStep.STAY_OFFLINE
    assert step(Repair(), only, LOST) is RepairStep.STAY_OFFLINE
