"""AssignReplicasToDirs: the assignments of a broker's own replicas are stored in the metadata."""

from __future__ import annotations

import pytest

from pykbroker.core.errors import ApiError
from tests.unit.core.metadata.harness import ControllerHarness, topic
from wire.error_codes import ErrorCode
from wire.messages import assign_replicas_to_dirs as messages
from wire.messages.create_topics import CreateTopicsRequest
from wire.stored.metadata_settings import FeatureLevelRecord
from wire.stored.metadata_topics import PartitionChangeRecord

DIRECTORY = b"d" * 16


def assignment(
    harness: ControllerHarness, *partitions: tuple[bytes, int], broker_id: int = 1
) -> messages.AssignReplicasToDirsRequest:
    return messages.AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=harness.freeze().image.cluster.brokers[broker_id].epoch,
        directories=[
            messages.AssignReplicasToDirsRequestDirectoryData(
                id=DIRECTORY,
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
