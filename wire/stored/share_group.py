"""Records of `__consumer_offsets` about share groups (KIP-932)."""

from typing import Annotated, ClassVar

from wire.declare import NIL, UUID, Int8, Int32, Int64, StoredPart, V
from wire.stored.framing import CoordinatorKey, CoordinatorValue


class ShareGroupMemberMetadataKey(CoordinatorKey):
    """The key of a record about a member of a share group."""

    record_type: ClassVar = 10

    group_id: Annotated[str, V("0")] = ""
    member_id: Annotated[str, V("0")] = ""


class ShareGroupMemberMetadataValue(CoordinatorValue):
    """A record value: the properties and subscription that the member last sent."""

    record_type: ClassVar = 10

    rack_id: Annotated[str | None, V(nullable="0+")] = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []


class ShareGroupMetadataKey(CoordinatorKey):
    """The key of a record about a share group (KIP-932)."""

    record_type: ClassVar = 11

    group_id: Annotated[str, V("0")] = ""


class ShareGroupMetadataValue(CoordinatorValue):
    """A record value: the group epoch, incremented when members, subscriptions or topics change."""

    record_type: ClassVar = 11

    epoch: Int32 = 0
    metadata_hash: Int64 = 0


class ShareGroupTargetAssignmentMetadataKey(CoordinatorKey):
    """The key of a record about the target assignment of a share group."""

    record_type: ClassVar = 12

    group_id: Annotated[str, V("0")] = ""


class ShareGroupTargetAssignmentMetadataValue(CoordinatorValue):
    """A record value: the group epoch of the target assignment."""

    record_type: ClassVar = 12

    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, V(tag=0, ignorable=True)] = 0


class ShareGroupTargetAssignmentMemberKey(CoordinatorKey):
    """The key of a record about the target assignment of one member."""

    record_type: ClassVar = 13

    group_id: Annotated[str, V("0")] = ""
    member_id: Annotated[str, V("0")] = ""


class TopicPartition(StoredPart):
    topic_id: UUID = NIL
    partitions: list[Int32] = []


class ShareGroupTargetAssignmentMemberValue(CoordinatorValue):
    """A record value: the partitions of the member's target assignment."""

    record_type: ClassVar = 13

    topic_partitions: list[TopicPartition] = []


class ShareGroupCurrentMemberAssignmentKey(CoordinatorKey):
    """The key of a record about the current assignment of one member."""

    record_type: ClassVar = 14

    group_id: Annotated[str, V("0")] = ""
    member_id: Annotated[str, V("0")] = ""


class TopicPartitions(StoredPart):
    topic_id: UUID = NIL
    partitions: list[Int32] = []


class ShareGroupCurrentMemberAssignmentValue(CoordinatorValue):
    """A record value: the partitions that the member is assigned."""

    record_type: ClassVar = 14

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = []


class ShareGroupStatePartitionMetadataKey(CoordinatorKey):
    """The key of a record about the share-partitions of a share group."""

    record_type: ClassVar = 15

    group_id: Annotated[str, V("0")] = ""


class TopicPartitionsInfo(StoredPart):
    topic_id: UUID = NIL
    topic_name: str = ""
    partitions: list[Int32] = []


class TopicInfo(StoredPart):
    topic_id: UUID = NIL
    topic_name: str = ""


class ShareGroupStatePartitionMetadataValue(CoordinatorValue):
    """A record value: the share-partitions whose state has been initialized or deleted."""

    record_type: ClassVar = 15

    initializing_topics: list[TopicPartitionsInfo] = []
    initialized_topics: list[TopicPartitionsInfo] = []
    deleting_topics: list[TopicInfo] = []
