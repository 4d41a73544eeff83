"""Tests of what the controller does by itself: portions, restarts between them, refused records, and its own pauses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata import partition_change
from pykbroker.core.metadata.broker_changes import PORTION_PARTITIONS
from pykbroker.core.metadata.controller_tasks import REFUSED_RETRY_MS
from pykbroker.core.metadata.machine import ControllerMachine
from pykbroker.core.metadata.notices import BrokerGone
from pykbroker.core.metadata.record import Record
from pykbroker.core.metadata.sessions import UNHEARD_MS
from pykbroker.core.now import Now
from tests.unit.core.metadata.harness import NOW_MS, Configs, ControllerHarness
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from wire.messages.elect_leaders import ElectLeadersRequest
from wire.sentinels import NO_LEADER
from wire.stored.metadata_brokers import BrokerRegistrationChangeRecord, UnregisterBrokerRecord
from wire.stored.metadata_topics import PartitionChangeRecord

SESSION_MS = 9_000
MANY = 4 * PORTION_PARTITIONS


def cluster(*brokers: int) -> ControllerHarness:
    return ControllerHarness().open(*brokers).activate()


def create(harness: ControllerHarness, name: str, partitions: int, replicas: Sequence[int]) -> None:
    assignments = [CreatableReplicaAssignment(index, list(replicas)) for index in range(partitions)]
    made = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    harness.ask(CreateTopicsRequest(topics=[made]))


def epoch(harness: ControllerHarness, broker_id: int) -> int:
    return harness.freeze().image.cluster.brokers[broker_id].epoch


def led(harness: ControllerHarness, broker_id: int) -> int:
    topics = harness.freeze().image.topics.by_name.values()
    return sum(partition.leader == broker_id for found in topics for partition in found.partitions.values())


def test_a_fence_writes_the_brokers_record_first_and_its_partitions_in_portions() -> None:
    harness = cluster(1, 2)
    create(harness, "a", MANY, (2, 1))
    batches = harness.pass_time(2 * SESSION_MS)
    assert [len(batch) for batch in batches] == [PORTION_PARTITIONS + 1, *[PORTION_PARTITIONS] * 3]
    assert isinstance(batches[0][0], BrokerRegistrationChangeRecord)
    assert all(isinstance(record, PartitionChangeRecord) for batch in batches for record in batch[1:])
    assert led(harness, 1) == MANY


@pytest.mark.parametrize("from_snapshot", [False, True], ids=["log", "snapshot"])
def test_a_new_controller_completes_a_fence_that_was_cut_short(from_snapshot: bool) -> None:
    harness = cluster(1, 2)
    create(harness, "a", MANY, (2, 1))
    harness.notify(BrokerGone(2, epoch(harness, 2), refused=True))
    assert 0 < led(harness, 2) < MANY
    if from_snapshot:
        new = ControllerHarness(harness.freeze().image)
    else:
        new = ControllerHarness()
        new.write(*(entry.value for entry in harness.log))
    new.activate().pass_time()
    assert led(new, 1) == MANY
    assert new.pass_time(SESSION_MS) == []


def test_a_new_controller_completes_an_unregistration_that_was_cut_short() -> None:
    harness = cluster(1, 2)
    create(harness, "a", MANY, (2,))
    harness.beat(2, epoch(harness, 2), want_fence=True)
    harness.pass_time()
    assert all(partition.elr == (2,) for partition in harness.freeze().image.topics.by_name["a"].partitions.values())
    harness.write(UnregisterBrokerRecord(broker_id=2, broker_epoch=epoch(harness, 2)))
    new = ControllerHarness(harness.freeze().image).activate()
    new.pass_time()
    assert all(partition.elr == () for partition in new.freeze().image.topics.by_name["a"].partitions.values())


def test_a_new_controller_elects_leaders_where_an_unfence_was_cut_short() -> None:
    harness = cluster(1, 2)
    create(harness, "a", MANY, (2,))
    harness.beat(2, epoch(harness, 2), want_fence=True)
    harness.pass_time()
    assert led(harness, NO_LEADER) == MANY
    harness.write(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=epoch(harness, 2), fenced=-1))
    new = ControllerHarness(harness.freeze().image).activate()
    assert [len(batch) for batch in new.pass_time()] == [PORTION_PARTITIONS] * 4
    assert led(new, 2) == MANY


def test_a_fence_looks_at_the_partitions_of_that_broker_only() -> None:
    harness = cluster(1, 2, 3)
    create(harness, "many", MANY, (1, 2))
    create(harness, "few", 3, (3, 1))
    with patch.object(partition_change, "repair", wraps=partition_change.repair) as repair:
        harness.notify(BrokerGone(3, epoch(harness, 3), refused=True))
        harness.pass_time()
    assert repair.call_count == 3


def test_a_fence_that_the_log_refuses_is_decided_again() -> None:
    harness = cluster(1, 2)
    create(harness, "a", 3, (2, 1))
    refused: tuple[Record, ...] = ()
    while not refused:
        harness.now_ms = max(harness.now_ms, harness.machine.deadline_ms)
        refused = harness.machine.tick(Now(harness.now_ms, NOW_MS)).records
    assert harness.machine.deadline_ms >= harness.now_ms + REFUSED_RETRY_MS
    assert harness.pass_time(SESSION_MS) == [refused]
    assert led(harness, 1) == 3


def test_a_refused_portion_is_not_decided_again_at_once() -> None:
    harness = cluster(1, 2)
    create(harness, "a", MANY, (2, 1))
    harness.notify(BrokerGone(2, epoch(harness, 2), refused=True))
    now = Now(harness.now_ms, NOW_MS)
    refused = harness.machine.tick(now).records
    assert len(refused) == PORTION_PARTITIONS
    assert harness.machine.deadline_ms == harness.now_ms + REFUSED_RETRY_MS
    harness.now_ms += REFUSED_RETRY_MS
    assert harness.machine.tick(Now(harness.now_ms, NOW_MS)).records == refused


def test_a_controller_that_was_stopped_gives_brokers_the_time_to_be_heard_again() -> None:
    harness = cluster(1, 2)
    harness.pass_time(SESSION_MS / 2)
    harness.now_ms += 10 * SESSION_MS
    assert harness.pass_time(SESSION_MS / 4) == []
    assert [len(batch) for batch in harness.pass_time(SESSION_MS)] == [1]


def test_a_heartbeat_counts_when_it_arrives() -> None:
    harness = cluster(1, 2)
    for _ in range(4):
        harness.pass_time(SESSION_MS / 2)
        harness.machine.note_contact(2, epoch(harness, 2), Now(harness.now_ms, NOW_MS))
    assert not harness.freeze().image.cluster.brokers[2].fenced
    harness.machine.note_contact(2, epoch(harness, 2) - 1, Now(harness.now_ms + SESSION_MS, NOW_MS))
    harness.pass_time(2 * SESSION_MS)
    assert harness.freeze().image.cluster.brokers[2].fenced


def test_a_new_controller_begins_a_session_for_each_unfenced_broker() -> None:
    harness = cluster(1, 2, 3)
    harness.beat(3, epoch(harness, 3), want_fence=True)
    new = ControllerHarness(harness.freeze().image).activate()
    assert new.pass_time(SESSION_MS) == []
    new.beat(2, epoch(new, 2))
    new.register(3, incarnation=2)  # it is fenced, so that no session keeps another process out
    (fenced,) = new.pass_time(2 * SESSION_MS)
    assert [type(record) for record in fenced] == [BrokerRegistrationChangeRecord]


def refused(harness: ControllerHarness, broker_id: int, **asked: Any) -> bool:
    """Whether another process of a broker may not register, since the earlier one seems to run."""
    try:
        harness.register(broker_id, incarnation=9, **asked)
    except ApiError as error:
        assert error.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        return True
    return False


@pytest.mark.parametrize(("wait_ms", "is_refused"), [(0, True), (UNHEARD_MS, True), (UNHEARD_MS + 1, False)])
def test_a_broker_that_a_new_controller_does_not_hear_of_is_replaced_by_its_next_process(
    wait_ms: float, is_refused: bool
) -> None:
    new = ControllerHarness(cluster(1, 2).freeze().image).activate()
    new.pass_time(wait_ms)
    assert refused(new, 2, log_dirs=[b"another directory"[:16]])
    assert refused(new, 2) == is_refused


def test_a_broker_that_a_new_controller_has_heard_of_keeps_its_id() -> None:
    new = ControllerHarness(cluster(1, 2).freeze().image).activate()
    new.beat(2, epoch(new, 2))
    new.pass_time(UNHEARD_MS + 1)
    assert refused(new, 2)
    new.beat(2, epoch(new, 2))
    new.pass_time(SESSION_MS - 1)
    assert refused(new, 2)


def test_leaders_are_balanced_in_portions() -> None:
    harness = cluster(1, 2)
    create(harness, "a", MANY, (2, 1))
    harness.notify(BrokerGone(2, epoch(harness, 2), refused=True))
    harness.pass_time()
    harness.beat(2, epoch(harness, 2))
    for index, partition in harness.freeze().image.topics.by_name["a"].partitions.items():
        topic_id = harness.freeze().image.topics.by_name["a"].id
        harness.write(PartitionChangeRecord(partition_id=index, topic_id=topic_id, isr=[*partition.isr, 2]))
    batches = []
    for _ in range(100):
        harness.beat(2, epoch(harness, 2))
        batches += harness.pass_time(4_000)
    assert [len(batch) for batch in batches] == [PORTION_PARTITIONS] * 4
    assert led(harness, 2) == MANY
    (preferred,) = harness.ask(ElectLeadersRequest(election_type=0, topic_partitions=None)).replica_election_results
    assert preferred.partition_result == []


def test_leaders_are_not_balanced_if_that_is_off() -> None:
    harness = ControllerHarness(node_id=2, auto_leader_rebalance_enable=False).open(2).activate()
    harness.beat(1, harness.register(1))
    create(harness, "a", 1, (2, 1))
    place = harness.freeze().image.topics.by_name["a"].id
    harness.write(PartitionChangeRecord(partition_id=0, topic_id=place, leader=1))
    for _ in range(100):
        harness.beat(1, epoch(harness, 1))
        assert harness.pass_time(4_000) == []


def test_the_index_of_a_replayed_log_equals_that_of_its_image() -> None:
    harness = cluster(1, 2, 3)
    create(harness, "a", 5, (1, 2, 3))
    create(harness, "b", 5, (2, 3))
    harness.notify(BrokerGone(2, epoch(harness, 2), refused=True))
    fresh = ControllerMachine(harness.settings, Configs(), random.Random(0), harness.freeze().image)
    for name in ("isr", "elr", "led"):
        ours, theirs = getattr(harness.machine._index, name), getattr(fresh._index, name)
        for broker_id in {**ours, **theirs}:
            assert ours[broker_id].keys() == theirs[broker_id].keys()
    assert harness.machine._index.unbalanced.keys() == fresh._index.unbalanced.keys()
