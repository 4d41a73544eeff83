"""Kafka's special numbers, such as -1. Each stands for none, for all, or for a choice of the broker.

Requests, stored records and the broker's own state have the same ones, since a field with a number cannot be null.
"""

NO_NODE = NO_LEADER = -1
"""The id of no node, and that of the leader of a partition or a quorum without one."""
CONSUMER_REPLICA_ID = -1
"""The replica id of a client, which is no replica."""
NO_BROKER_EPOCH = -1
"""The epoch of a broker that is not registered, or that is unknown, as before KIP-903."""
NO_FEATURES_EPOCH = -1
"""The epoch of the finalized features before there are any (KIP-584)."""

NO_OFFSET = NO_LEADER_EPOCH = -1
"""An unknown offset or leader epoch (KIP-101, KIP-320). It is below all others."""
HIGH_WATERMARK = -1
"""The offset in DeleteRecords that stands for the high watermark (KIP-107)."""

NO_TIMESTAMP = -1
"""The time of a record without a timestamp, or of what has not happened or never happens."""
LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, MAX_TIMESTAMP = -1, -2, -3
"""The timestamps in ListOffsets that ask for the ends of a partition, and for its largest timestamp (KIP-734)."""
EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP = -4, -5, -6
"""The timestamps in ListOffsets about remote storage (KIP-405, KIP-1005, KIP-1023)."""

NO_PRODUCER_ID = NO_PRODUCER_EPOCH = NO_SEQUENCE = -1
"""The fields of a batch without an idempotent producer (KIP-98)."""
ACKS_ALL = -1
"""The `acks` of a producer that waits for all replicas in sync."""
NO_GENERATION_ID = -1
"""The generation of a member that has not joined, and of a commit without a membership."""
BROKER_DEFAULT = -1
"""The number of partitions or replicas of a new topic that leaves the choice to the broker (KIP-464)."""
