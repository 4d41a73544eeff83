"""Records of `__consumer_offsets` about consumer groups (KIP-848)."""

from typing import Annotated, ClassVar

from msgspec import field

from wire.declare import NIL, UUID, Int8, Int32, Int64, StoredPart, V
from wire.stored.framing import CoordinatorKey, CoordinatorValue


class ConsumerGroupMetadataKey(CoordinatorKey):
    """The key of a record about a consumer group (KIP-848)."""

    record_type: ClassVar = 3

    group_id: Annotated[str, V("0")] = ""


class ConsumerGroupMetadataValue(CoordinatorValue):
    """A record value: the group epoch, incremented when members, subscriptions or topics change."""

    record_type: ClassVar = 3

    epoch: Int32 = 0
    metadata_hash: Annotated[Int64, V(tag=0)] = 0


class ConsumerGroupPartitionMetadataKey(CoordinatorKey):
    """The key of a record about the topics of a consumer group."""

    record_type: ClassVar = 4

    group_id: Annotated[str, V("0")] = ""


class PartitionMetadata(StoredPart):
    partition: Int32 = 0
    racks: list[str] = []


class TopicMetadata(StoredPart):
    topic_id: UUID = NIL
    topic_name: str = ""
    num_partitions: Int32 = 0
    partition_metadata: list[PartitionMetadata] = []


class ConsumerGroupPartitionMetadataValue(CoordinatorValue):
    """A record value: the topics as the group last saw them. Newer brokers write a hash of the topics instead."""

    record_type: ClassVar = 4

    topics: list[TopicMetadata] = []


class ConsumerGroupMemberMetadataKey(CoordinatorKey):
    """The key of a record about a member of a consumer group."""

    record_type: ClassVar = 5

    group_id: Annotated[str, V("0")] = ""
    member_id: Annotated[str, V("0")] = ""


class ClassicProtocol(StoredPart):
    name: str = ""
    metadata: bytes = b""


class ClassicMemberMetadata(StoredPart):
    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = []


class ConsumerGroupMemberMetadataValue(CoordinatorValue):
    """A record value: the properties and subscription that the member last sent."""

    record_type: ClassVar = 5

    instance_id: Annotated[str | None, V(nullable="0+")] = ""
    rack_id: Annotated[str | None, V(nullable="0+")] = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: Annotated[str | None, V(nullable="0+")] = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: Annotated[str | None, V(nullable="0+")] = ""
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, V(nullable="0+", tag=0)] = field(
        default_factory=ClassicMemberMetadata
    )


class ConsumerGroupTargetAssignmentMetadataKey(CoordinatorKey):
    """The key of a record about the target assignment of a consumer group."""

    record_type: ClassVar = 6

    group_id: Annotated[str, V("0")] = ""


class ConsumerGroupTargetAssignmentMetadataValue(CoordinatorValue):
    """A record value: the group epoch of the target assignment."""

    record_type: ClassVar = 6

    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, V(tag=0, ignorable=True)] = 0


class ConsumerGroupTargetAssignmentMemberKey(CoordinatorKey):
    """The key of a record about the target assignment of one member."""

    record_type: ClassVar = 7

    group_id: Annotated[str, V("0")] = ""
    member_id: Annotated[str, V("0")] = ""


class TopicPartition(StoredPart):
    topic_id: UUID = NIL
    partitions: list[Int32] = []


class ConsumerGroupTargetAssignmentMemberValue(CoordinatorValue):
    """A record value: the partitions of the member's target assignment."""

    record_type: ClassVar = 7

    topic_partitions: list[TopicPartition] = []


class ConsumerGroupCurrentMemberAssignmentKey(CoordinatorKey):
    """The key of a record about the current assignment of one member."""

    record_type: ClassVar = 8

    group_id: Annotated[str, V("0")] = ""
    member_id: Annotated[str, V("0")] = ""


class TopicPartitions(StoredPart):
    topic_id: UUID = NIL
    partitions: list[Int32] = []
    assignment_epochs: Annotated[list[Int32] | None, V(nullable="0+", tag=0)] = []


class ConsumerGroupCurrentMemberAssignmentValue(CoordinatorValue):
    """A record value: the partitions that the member owns, and the partitions that it must revoke."""

    record_type: ClassVar = 8

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = []
    partitions_pending_revocation: list[TopicPartitions] = []


class ConsumerGroupRegularExpressionKey(CoordinatorKey):
    """The key of a record about a regular expression to which members of a consumer group subscribe."""

    record_type: ClassVar = 16

    group_id: Annotated[str, V("0")] = ""
    regular_expression: Annotated[str, V("0")] = ""


class ConsumerGroupRegularExpressionValue(CoordinatorValue):
    """A record value: the topics that match the regular expression."""

    record_type: ClassVar = 16

    topics: list[str] = []
    version: Int64 = 0
    timestamp: Int64 = 0
