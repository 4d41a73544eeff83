"""Records of `__consumer_offsets` about streams groups (KIP-1071)."""

from typing import Annotated, ClassVar

from wire.declare import Int8, Int16, Int32, Int64, StoredPart, UInt16, V
from wire.stored.framing import CoordinatorKey, CoordinatorValue


class StreamsGroupMetadataKey(CoordinatorKey):
    """The key of a record about a streams group (KIP-1071)."""

    record_type: ClassVar = 17

    group_id: Annotated[str, V("0")] = ""


class LastAssignmentConfig(StoredPart):
    key: str = ""
    value: str = ""


class StreamsGroupMetadataValue(CoordinatorValue):
    """A record value: the group epoch, incremented when members, topology or topics change."""

    record_type: ClassVar = 17

    epoch: Int32 = 0
    metadata_hash: Int64 = 0
    validated_topology_epoch: Annotated[Int32, V(tag=0)] = -1
    last_assignment_configs: Annotated[list[LastAssignmentConfig] | None, V(nullable="0+", tag=1)] = []


class StreamsGroupMemberMetadataKey(CoordinatorKey):
    """The key of a record about a member of a streams group."""

    record_type: ClassVar = 19

    group_id: Annotated[str, V("0")] = ""
    member_id: Annotated[str, V("0")] = ""


class Endpoint(StoredPart):
    host: str = ""
    port: UInt16 = 0


class KeyValue(StoredPart):
    key: str = ""
    value: str = ""


class StreamsGroupMemberMetadataValue(CoordinatorValue):
    """A record value: the properties that the member last sent."""

    record_type: ClassVar = 19

    instance_id: Annotated[str | None, V(nullable="0+")] = ""
    rack_id: Annotated[str | None, V(nullable="0+")] = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32 = 0
    process_id: str = ""
    user_endpoint: Annotated[Endpoint | None, V(nullable="0+")] = None
    client_tags: list[KeyValue] = []


class StreamsGroupTargetAssignmentMetadataKey(CoordinatorKey):
    """The key of a record about the target assignment of a streams group."""

    record_type: ClassVar = 20

    group_id: Annotated[str, V("0")] = ""


class StreamsGroupTargetAssignmentMetadataValue(CoordinatorValue):
    """A record value: the group epoch of the target assignment."""

    record_type: ClassVar = 20

    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, V(tag=0, ignorable=True)] = 0


class StreamsGroupTargetAssignmentMemberKey(CoordinatorKey):
    """The key of a record about the target assignment of one member."""

    record_type: ClassVar = 21

    group_id: Annotated[str, V("0")] = ""
    member_id: Annotated[str, V("0")] = ""


class StreamsGroupTargetAssignmentMemberTaskIds(StoredPart):
    subtopology_id: str = ""
    partitions: list[Int32] = []


class StreamsGroupTargetAssignmentMemberValue(CoordinatorValue):
    """A record value: the tasks of the member's target assignment."""

    record_type: ClassVar = 21

    active_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = []
    standby_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = []
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = []


class StreamsGroupCurrentMemberAssignmentKey(CoordinatorKey):
    """The key of a record about the current assignment of one member."""

    record_type: ClassVar = 22

    group_id: Annotated[str, V("0")] = ""
    member_id: Annotated[str, V("0")] = ""


class StreamsGroupCurrentMemberAssignmentTaskIds(StoredPart):
    subtopology_id: str = ""
    partitions: list[Int32] = []
    assignment_epochs: Annotated[list[Int32] | None, V(nullable="0+", tag=0)] = []


class StreamsGroupCurrentMemberAssignmentValue(CoordinatorValue):
    """A record value: the tasks that the member owns, and the tasks that it must revoke."""

    record_type: ClassVar = 22

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    active_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = []
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = []
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = []
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = []
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = []
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = []


class StreamsGroupTopologyKey(CoordinatorKey):
    """The key of a record about the topology of a streams group."""

    record_type: ClassVar = 23

    group_id: Annotated[str, V("0")] = ""


class TopicConfig(StoredPart):
    key: str = ""
    value: str = ""


class TopicInfo(StoredPart):
    name: str = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[TopicConfig] = []


class CopartitionGroup(StoredPart):
    source_topics: list[Int16] = []
    source_topic_regex: list[Int16] = []
    repartition_source_topics: list[Int16] = []


class Subtopology(StoredPart):
    subtopology_id: str = ""
    source_topics: list[str] = []
    source_topic_regex: list[str] = []
    state_changelog_topics: list[TopicInfo] = []
    repartition_sink_topics: list[str] = []
    repartition_source_topics: list[TopicInfo] = []
    copartition_groups: list[CopartitionGroup] = []


class StreamsGroupTopologyValue(CoordinatorValue):
    """A record value: the subtopologies, with their source and internal topics."""

    record_type: ClassVar = 23

    epoch: Int32 = 0
    subtopologies: list[Subtopology] = []
