"""Records of `__share_group_state`: the delivery state of share-partitions."""

from typing import Annotated, ClassVar

from wire.declare import NIL, UUID, Int8, Int16, Int32, Int64, StoredPart, V
from wire.stored.framing import Catalogue, CoordinatorKey, CoordinatorValue


class ShareSnapshotKey(CoordinatorKey):
    """The key of a record about a share-partition."""

    record_type: ClassVar = 0

    group_id: Annotated[str, V("0")] = ""
    topic_id: Annotated[UUID, V("0")] = NIL
    partition: Annotated[Int32, V("0")] = 0


class StateBatch(StoredPart):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class ShareSnapshotValue(CoordinatorValue):
    """A record value: the complete delivery state of the share-partition."""

    record_type: ClassVar = 0

    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, V(tag=0)] = -1
    create_timestamp: Int64 = 0
    write_timestamp: Int64 = 0
    state_batches: list[StateBatch] = []


class ShareUpdateKey(CoordinatorKey):
    """The key of a record about a share-partition."""

    record_type: ClassVar = 1

    group_id: Annotated[str, V("0")] = ""
    topic_id: Annotated[UUID, V("0")] = NIL
    partition: Annotated[Int32, V("0")] = 0


class ShareUpdateValue(CoordinatorValue):
    """A record value: the changes of the delivery state since its snapshot."""

    record_type: ClassVar = 1

    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, V(tag=0)] = -1
    state_batches: list[StateBatch] = []


SHARE_RECORDS: Catalogue = {0: (ShareSnapshotKey, ShareSnapshotValue), 1: (ShareUpdateKey, ShareUpdateValue)}
"""The classes of key and value by record type."""
