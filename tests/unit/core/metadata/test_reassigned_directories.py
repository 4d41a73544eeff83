"""Tests of AlterPartitionReassignments: the written record has the log directory of each replica."""

from __future__ import annotations

from pykbroker.core.ids import UNASSIGNED
from tests.unit.core.metadata.harness import ControllerHarness
from wire.error_codes import ErrorCode
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequestDirectoryData as AssignedDirectory
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequestPartitionData as AssignedPartition
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequestTopicData as AssignedTopic
from wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest

OF_1, OF_2 = bytes([1]) * 16, bytes([2]) * 16
"""The only log directory of brokers 1 and 2."""


def with_brokers(*replicas: int) -> ControllerHarness:
    """Return a cluster with a topic "a" on the given replicas. Brokers 1 and 2 have one log directory, broker 3 has
    two.
    """
    harness = ControllerHarness().open(1, 2)
    harness.beat(3, harness.register(3, log_dirs=[b"x" * 16, b"y" * 16]))
    made = CreatableTopic(
        name="a",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
    )
    harness.ask(CreateTopicsRequest(topics=[made]))
    return harness


def reassigned(harness: ControllerHarness, *replicas: int) -> dict[int, bytes]:
    """Reassign the partition to the brokers; return the directory of each replica, which record and image must agree
    on.
    """
    (topic,) = harness.ask(
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic("a", [ReassignablePartition(0, list(replicas) or None)])]
        )
    ).responses
    assert topic.partitions[0].error_code == ErrorCode.NONE
    (change,) = harness.decided
    image = harness.freeze().image.topics.by_name["a"].partitions[0]
    assert image.replicas == tuple(change.replicas)
    found = dict(zip(change.replicas, change.directories, strict=True))
    assert {replica: image.directory(replica) for replica in image.replicas} == found
    return found


def test_a_kept_replica_keeps_its_directory_and_a_new_one_gets_its_brokers_only_directory() -> None:
    assert reassigned(with_brokers(1), 2, 1) == {2: OF_2, 1: OF_1}


def test_a_new_replica_on_a_broker_with_several_directories_is_unassigned() -> None:
    assert reassigned(with_brokers(1), 1, 3) == {1: OF_1, 3: UNASSIGNED}


def test_a_directory_follows_its_replica_if_the_replicas_are_reordered() -> None:
    assert reassigned(with_brokers(1, 2, 3), 3, 2, 1) == {3: UNASSIGNED, 2: OF_2, 1: OF_1}


def test_a_kept_replica_keeps_the_directory_that_its_broker_reported() -> None:
    harness = with_brokers(3)
    image = harness.freeze().image
    harness.ask(
        AssignReplicasToDirsRequest(
            3,
            image.cluster.brokers[3].epoch,
            [
                AssignedDirectory(
                    id=b"y" * 16,
                    topics=[
                        AssignedTopic(
                            topic_id=image.topics.by_name["a"].id, partitions=[AssignedPartition(partition_index=0)]
                        )
                    ],
                )
            ],
        )
    )
    assert reassigned(harness, 1, 3) == {1: OF_1, 3: b"y" * 16}


def test_a_replica_keeps_its_directory_until_it_is_removed() -> None:
    harness = with_brokers(1)
    assert reassigned(harness, 2) == {2: OF_2, 1: OF_1}
    assert reassigned(harness) == {1: OF_1}
