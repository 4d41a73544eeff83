"""Records of `__remote_log_metadata`, which describe the segments in remote storage (KIP-405)."""

from typing import Annotated, ClassVar

from msgspec import field

from wire.declare import NIL, UUID, Bool, Int8, Int32, Int64, StoredPart, V
from wire.stored.framing import FramedRecord


class TopicIdPartitionEntry(StoredPart):
    name: str = ""
    id: UUID = NIL
    partition: Int32 = 0


class RemoteLogSegmentIdEntry(StoredPart):
    topic_id_partition: TopicIdPartitionEntry = field(default_factory=TopicIdPartitionEntry)
    id: UUID = NIL


class SegmentLeaderEpochEntry(StoredPart):
    leader_epoch: Int32 = 0
    offset: Int64 = 0


class RemoteLogSegmentMetadataRecord(FramedRecord):
    """A segment that is being copied, or has been copied, to remote storage."""

    record_type: ClassVar = 0

    remote_log_segment_id: RemoteLogSegmentIdEntry = field(default_factory=RemoteLogSegmentIdEntry)
    start_offset: Int64 = 0
    end_offset: Int64 = 0
    broker_id: Int32 = 0
    max_timestamp_ms: Int64 = 0
    event_timestamp_ms: Int64 = 0
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = []
    segment_size_in_bytes: Int32 = 0
    custom_metadata: Annotated[bytes | None, V(nullable="0+")] = None
    remote_log_segment_state: Int8 = 0
    txn_index_empty: Annotated[Bool, V(tag=0)] = False


class RemoteLogSegmentMetadataUpdateRecord(FramedRecord):
    """A change of the state of a remote segment."""

    record_type: ClassVar = 1

    remote_log_segment_id: RemoteLogSegmentIdEntry = field(default_factory=RemoteLogSegmentIdEntry)
    broker_id: Int32 = 0
    event_timestamp_ms: Int64 = 0
    custom_metadata: Annotated[bytes | None, V(nullable="0+")] = None
    remote_log_segment_state: Int8 = 0


class RemotePartitionDeleteMetadataRecord(FramedRecord):
    """The deletion of a partition whose remote segments must be deleted."""

    record_type: ClassVar = 2

    topic_id_partition: TopicIdPartitionEntry = field(default_factory=TopicIdPartitionEntry)
    broker_id: Int32 = 0
    event_timestamp_ms: Int64 = 0
    remote_partition_delete_state: Int8 = 0


class RemoteLogSegmentMetadataSnapshotRecord(FramedRecord):
    """A remote segment in the snapshot of a partition."""

    record_type: ClassVar = 3

    segment_id: UUID = NIL
    start_offset: Int64 = 0
    end_offset: Int64 = 0
    broker_id: Int32 = 0
    max_timestamp_ms: Int64 = 0
    event_timestamp_ms: Int64 = 0
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = []
    segment_size_in_bytes: Int32 = 0
    custom_metadata: Annotated[bytes | None, V(nullable="0+")] = None
    remote_log_segment_state: Int8 = 0
    txn_index_empty: Annotated[Bool, V(tag=0)] = False


REMOTE_LOG_RECORDS = {
    cls.record_type: cls
    for cls in (
        RemoteLogSegmentMetadataRecord,
        RemoteLogSegmentMetadataUpdateRecord,
        RemotePartitionDeleteMetadataRecord,
        RemoteLogSegmentMetadataSnapshotRecord,
    )
}
"""The classes of records by record type."""
