"""AssignReplicasToDirs: the assignments of a broker's own replicas are stored in the metadata."""

from __future__ import annotations

import pytest

from pykbroker.core.errors import ApiError
from tests.unit.core.metadata.room import Room, topic
from wire.error_codes import ErrorCode
from wire.messages import assign_replicas_to_dirs as messages
from wire.messages.create_topics import CreateTopicsRequest
from wire.stored.metadata_settings import FeatureLevelRecord
from wire.stored.metadata_topics import PartitionChangeRecord

DIRECTORY = b"d" * 16


def assignment(room: Room, *partitions: tuple[bytes, int], broker_id: int = 1) -> messages.AssignReplicasToDirsRequest:
    return messages.AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=room.freeze().image.cluster.brokers[broker_id].epoch,
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


def with_topic(replicas: int = 1) -> tuple[Room, bytes]:
    room = Room().open(1, 2)
    room.ask(CreateTopicsRequest(topics=[topic("a", 2, replicas)]))
    return room, room.freeze().image.topics.by_name["a"].id


def codes(response: messages.AssignReplicasToDirsResponse) -> list[int]:
    return [
        partition.error_code
        for directory in response.directories
        for one in directory.topics
        for partition in one.partitions
    ]


def test_an_assignment_is_in_the_image_and_written_once() -> None:
    room, topic_id = with_topic(replicas=2)
    assert codes(room.ask(assignment(room, (topic_id, 1)))) == [0]
    partition = room.freeze().image.topics.by_id[topic_id].partitions[1]
    assert (partition.directory(1), partition.directory(2)) == (DIRECTORY, bytes([2]) * 16)
    assert [type(record) for record in room.decided] == [PartitionChangeRecord]
    assert codes(room.ask(assignment(room, (topic_id, 1)))) == [0]
    assert room.decided == ()


def test_unknown_partitions_have_their_own_errors() -> None:
    room, topic_id = with_topic()
    placed = room.freeze().image.topics.by_id[topic_id].partitions
    other = next(broker_id for broker_id in (1, 2) if placed[0].replicas != (broker_id,))
    response = room.ask(assignment(room, (bytes(16), 0), (topic_id, 7), (topic_id, 0), broker_id=other))
    assert codes(response) == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    assert room.decided == ()


def test_a_wrong_broker_epoch_is_refused() -> None:
    room, topic_id = with_topic()
    request = assignment(room, (topic_id, 0))
    request.broker_epoch += 1
    with pytest.raises(ApiError, match="Expected broker epoch"):
        room.ask(request)


def test_assignments_are_refused_below_their_metadata_version() -> None:
    room, topic_id = with_topic()
    room.write(FeatureLevelRecord(name="metadata.version", feature_level=16))
    with pytest.raises(ApiError, match="not supported"):
        room.ask(assignment(room, (topic_id, 0)))
