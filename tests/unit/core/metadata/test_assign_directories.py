"""AssignReplicasToDirs: the assignments of a broker's own replicas are stored in the metadata."""

from __future__ import annotations

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.ids import LOST
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.topic_partition import TopicIdPartition
from tests.unit.core.metadata.harness import ControllerHarness, topic
from wire.error_codes import ErrorCode
from wire.messages import assign_replicas_to_dirs as messages
from wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from wire.messages.create_topics import CreateTopicsRequest
from wire.sentinels import NO_LEADER
from wire.stored.metadata_settings import FeatureLevelRecord
from wire.stored.metadata_topics import PartitionChangeRecord

DIRECTORY = b"d" * 16


def assignment(
    harness: ControllerHarness, *partitions: TopicIdPartition, broker_id: int = 1, directory: bytes = DIRECTORY
) -> messages.AssignReplicasToDirsRequest:
    return messages.AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=harness.freeze().image.cluster.brokers[broker_id].epoch,
        directories=[
            messages.AssignReplicasToDirsRequestDirectoryData(
                id=directory,
                topics=[
                    messages.AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id,
                        partitions=[messages.AssignReplicasToDirsRequestPartitionData(partition_index=index)],
                    )
                    for topic_id, index in partitions
                ],
            )
        ],
    )


def with_topic(replicas: int = 1) -> tuple[ControllerHarness, bytes]:
    harness = ControllerHarness().open(2)
    harness.beat(1, harness.register(1, log_dirs=[bytes([1]) * 16, DIRECTORY]))
    harness.ask(CreateTopicsRequest(topics=[topic("a", 2, replicas)]))
    return harness, harness.freeze().image.topics.by_name["a"].id


def codes(response: messages.AssignReplicasToDirsResponse) -> list[int]:
    return [
        partition.error_code
        for directory in response.directories
        for one in directory.topics
        for partition in one.partitions
    ]


def test_an_assignment_is_applied_to_the_image_and_written_once() -> None:
    harness, topic_id = with_topic(replicas=2)
    assert codes(harness.ask(assignment(harness, (topic_id, 1)))) == [0]
    partition = harness.freeze().image.topics.by_id[topic_id].partitions[1]
    assert (partition.directory(1), partition.directory(2)) == (DIRECTORY, bytes([2]) * 16)
    assert [type(record) for record in harness.decided] == [PartitionChangeRecord]
    assert codes(harness.ask(assignment(harness, (topic_id, 1)))) == [0]
    assert harness.decided == ()


def test_each_unknown_partition_has_an_error() -> None:
    harness, topic_id = with_topic()
    placed = harness.freeze().image.topics.by_id[topic_id].partitions
    other = next(broker_id for broker_id in (1, 2) if placed[0].replicas != (broker_id,))
    response = harness.ask(assignment(harness, (bytes(16), 0), (topic_id, 7), (topic_id, 0), broker_id=other))
    assert codes(response) == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    assert harness.decided == ()


def replicated() -> tuple[ControllerHarness, bytes, int]:
    """Return a controller, a topic of two replicas, and the index of a partition that broker 2 leads."""
    harness, topic_id = with_topic(replicas=2)
    placed = harness.freeze().image.topics.by_id[topic_id].partitions
    return harness, topic_id, next(index for index, one in placed.items() if one.leader == 2)


def placed_in(harness: ControllerHarness, topic_id: bytes, index: int) -> PartitionImage:
    return harness.freeze().image.topics.by_id[topic_id].partitions[index]


def enlarged(harness: ControllerHarness, topic_id: bytes, index: int) -> int:
    """Return the error for a request of broker 2, the leader, to add broker 1 to the ISR."""
    image = harness.freeze().image
    placed, brokers = image.topics.by_id[topic_id].partitions[index], image.cluster.brokers
    data = AlterPartitionRequestPartitionData(
        index,
        placed.leader_epoch,
        partition_epoch=placed.partition_epoch,
        new_isr_with_epochs=[BrokerState(each, brokers[each].epoch) for each in (2, 1)],
    )
    answer = harness.ask(AlterPartitionRequest(2, brokers[2].epoch, [AlterPartitionRequestTopicData(topic_id, [data])]))
    code: int = answer.topics[0].partitions[0].error_code
    return code


def test_the_report_of_a_lost_replica_begins_a_leader_epoch_once() -> None:
    harness, topic_id, index = replicated()
    before = placed_in(harness, topic_id, index)
    harness.ask(assignment(harness, (topic_id, index), directory=LOST))
    lost = placed_in(harness, topic_id, index)
    assert (before.isr, lost.isr) in [((1, 2), (2,)), ((2, 1), (2,))]
    assert (lost.leader, lost.leader_epoch) == (2, before.leader_epoch + 1)
    harness.ask(assignment(harness, (topic_id, index), directory=LOST))
    assert placed_in(harness, topic_id, index) == lost


def test_a_lost_replica_that_led_begins_one_leader_epoch() -> None:
    harness, topic_id, index = replicated()
    before = placed_in(harness, topic_id, 1 - index)
    assert before.leader == 1
    harness.ask(assignment(harness, (topic_id, 1 - index), directory=LOST))
    lost = placed_in(harness, topic_id, 1 - index)
    assert (lost.leader, lost.leader_epoch) == (2, before.leader_epoch + 1)


def test_a_lost_replica_of_a_partition_without_a_leader_begins_no_leader_epoch() -> None:
    harness, topic_id, index = replicated()
    harness.ask(assignment(harness, (topic_id, index), directory=LOST))
    harness.ask(assignment(harness, (topic_id, index), broker_id=2, directory=b"x" * 16))
    before = placed_in(harness, topic_id, index)
    assert before.leader == NO_LEADER
    harness.ask(assignment(harness, (topic_id, index), broker_id=2, directory=LOST))
    assert placed_in(harness, topic_id, index).leader_epoch == before.leader_epoch


def test_a_replica_joins_the_isr_only_in_a_directory_that_is_online() -> None:
    harness, topic_id, index = replicated()
    harness.ask(assignment(harness, (topic_id, index), directory=LOST))
    assert enlarged(harness, topic_id, index) == ErrorCode.INELIGIBLE_REPLICA
    assert placed_in(harness, topic_id, index).isr == (2,)
    harness.ask(assignment(harness, (topic_id, index)))
    assert enlarged(harness, topic_id, index) == ErrorCode.NONE
    assert placed_in(harness, topic_id, index).isr == (2, 1)


def test_a_wrong_broker_epoch_is_refused() -> None:
    harness, topic_id = with_topic()
    request = assignment(harness, (topic_id, 0))
    request.broker_epoch += 1
    with pytest.raises(ApiError, match="Expected broker epoch"):
        harness.ask(request)


def test_assignments_are_refused_below_the_metadata_version_that_has_them() -> None:
    harness, topic_id = with_topic()
    harness.write(FeatureLevelRecord(name="metadata.version", feature_level=16))
    with pytest.raises(ApiError, match="not supported"):
        harness.ask(assignment(harness, (topic_id, 0)))
