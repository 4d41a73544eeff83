"""The retention and the snapshots of the metadata log, from Kafka's `metadata.*` configs."""

from __future__ import annotations

import msgspec

from pykbroker.core.config.config import BrokerConfig


class LogRules(msgspec.Struct, frozen=True):
    """The limits of segments, retention and snapshots, in bytes and ms. A negative limit means no limit."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    retention_bytes: int = 100 << 20
    retention_ms: int = 604_800_000
    snapshot_bytes: int = 20 << 20
    """The bytes of records after the last snapshot that cause the next snapshot."""
    snapshot_interval_ms: int = 3_600_000
    """The time after which new records cause a snapshot, whatever their size. 0 disables it."""

    @classmethod
    def of(cls, config: BrokerConfig) -> LogRules:
        """Return the limits that a broker's config sets."""
        values = {
            "segment_bytes": config.get("internal.metadata.log.segment.bytes")
            or config.get("metadata.log.segment.bytes"),
            "segment_ms": config.get("metadata.log.segment.ms"),
            "retention_bytes": config.get("metadata.max.retention.bytes"),
            "retention_ms": config.get("metadata.max.retention.ms"),
            "snapshot_bytes": config.get("metadata.log.max.record.bytes.between.snapshots"),
            "snapshot_interval_ms": config.get("metadata.log.max.snapshot.interval.ms"),
        }
        return msgspec.convert(values, cls)
