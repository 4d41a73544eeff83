"""Metadata records about topics and partitions.

PartitionRecord has versions 0-2, all flexible:
- Version 1 adds `directories`.
- Version 2 adds `eligible_leader_replicas` and `last_known_elr`.

PartitionChangeRecord has versions 0-2, all flexible:
- Version 1 adds `directories`.
- Version 2 adds `eligible_leader_replicas` and `last_known_elr`.
"""

from typing import Annotated, ClassVar

from wire.declare import NIL, UUID, Int8, Int32, V
from wire.stored.framing import FramedRecord


class TopicRecord(FramedRecord):
    """The creation of a topic."""

    record_type: ClassVar = 2

    name: str = ""
    topic_id: UUID = NIL


class PartitionRecord(FramedRecord):
    """The creation of a partition, or in a snapshot the current state of a partition."""

    record_type: ClassVar = 3
    versions: ClassVar = "0-2"

    partition_id: Int32 = -1
    topic_id: UUID = NIL
    replicas: list[Int32] = []
    isr: list[Int32] = []
    removing_replicas: list[Int32] = []
    adding_replicas: list[Int32] = []
    leader: Int32 = -1
    leader_recovery_state: Annotated[Int8, V(tag=0)] = 0
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Annotated[list[UUID], V("1+")] = []
    eligible_leader_replicas: Annotated[list[Int32] | None, V("2+", nullable="2+", tag=1)] = None
    last_known_elr: Annotated[list[Int32] | None, V("2+", nullable="2+", tag=2)] = None


class PartitionChangeRecord(FramedRecord):
    """A change of a partition. A field with its default value is unchanged.

    `leader` is -2 if it is unchanged, -1 for no leader.
    """

    record_type: ClassVar = 5
    versions: ClassVar = "0-2"

    partition_id: Int32 = -1
    topic_id: UUID = NIL
    isr: Annotated[list[Int32] | None, V(nullable="0+", tag=0)] = None
    leader: Annotated[Int32, V(tag=1)] = -2
    replicas: Annotated[list[Int32] | None, V(nullable="0+", tag=2)] = None
    removing_replicas: Annotated[list[Int32] | None, V(nullable="0+", tag=3)] = None
    adding_replicas: Annotated[list[Int32] | None, V(nullable="0+", tag=4)] = None
    leader_recovery_state: Annotated[Int8, V(tag=5)] = -1
    directories: Annotated[list[UUID] | None, V("1+", nullable="1+", tag=8)] = None
    eligible_leader_replicas: Annotated[list[Int32] | None, V("2+", nullable="2+", tag=6)] = None
    last_known_elr: Annotated[list[Int32] | None, V("2+", nullable="2+", tag=7)] = None


class RemoveTopicRecord(FramedRecord):
    """The deletion of a topic and its partitions."""

    record_type: ClassVar = 9

    topic_id: UUID = NIL


class ClearElrRecord(FramedRecord):
    """The removal of a topic's eligible leader replicas, or of all topics' if the name is empty (KIP-966)."""

    record_type: ClassVar = 28

    topic_name: str = ""
