"""The topic configs that affect a log. Names, units and defaults are Kafka 4.3.1's."""

from __future__ import annotations

import msgspec

LONG_MAX = 2**63 - 1
NO_LIMIT = -1


class LogConfig(msgspec.Struct, frozen=True, gc=False):
    """The topic configs of one log."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = NO_LIMIT
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    """The value of `internal.segment.bytes` if it is set, which has no minimum, or of `segment.bytes`."""
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    flush_before_ack: bool = False
    """The value of `pykbroker.flush.before.ack`: whether records are fsynced before they are acknowledged or committed.
    """
    producer_id_expiration_ms: int = 86_400_000
    """The value of the broker's `producer.id.expiration.ms`."""
    validate_records: bool = True
    """The value of `pykbroker.validate.records`: whether every record is validated, not only the batch header."""

    @property
    def compacted(self) -> bool:
        """Whether the topic is compacted, so that every record needs a key."""
        return "compact" in self.cleanup_policy

    @property
    def unflushed_max(self) -> int:
        """Return how many of the newest offsets may be unflushed when a record is acknowledged, whatever `acks` is."""
        return 0 if self.flush_before_ack else self.flush_messages - 1

    @property
    def asks_durability(self) -> bool:
        """Whether a config asks that a flush makes records durable. Otherwise it only keeps their order."""
        return self.flush_before_ack or self.flush_messages < LONG_MAX or self.flush_ms < LONG_MAX

    @property
    def roll_ms(self) -> int:
        """Return the age at which a segment rolls. In a compacted topic it is at most `max.compaction.lag.ms`."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacted else self.segment_ms

    @property
    def log_append_time(self) -> bool:
        """Whether records get the broker's timestamp (LogAppendTime) instead of the producer's."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def decompressed_bytes_max(self) -> int:
        """Return how many bytes a batch may decompress to. Kafka has no such limit."""
        return min(16 * self.max_message_bytes, 64 << 20)
