"""The leadership of one partition, and the high watermark that follows from it (KIP-101, KIP-320, KIP-966)."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode

NO_EPOCH = -1
NO_FLUSH = (1 << 63) - 1
"""The default of `flush.messages`."""


class Leadership:
    """Whether this broker leads the partition, in which epoch, and how far the partition is committed.

    All records below `high_watermark` are committed. `is_under_min_isr`: the ISR is smaller than the effective
    `min.insync.replicas`, which is never larger than the number of replicas.
    """

    __slots__ = (
        "_can_advance",
        "_flush_before_ack",
        "_flush_messages",
        "_isr_size",
        "_min_insync_replicas",
        "_replica_count",
        "epoch",
        "high_watermark",
        "is_leader",
        "is_under_min_isr",
    )

    def __init__(self) -> None:
        self.is_leader, self.epoch, self.high_watermark = False, NO_EPOCH, 0
        self._replica_count = self._isr_size = self._min_insync_replicas = 1
        self._flush_messages, self._flush_before_ack = NO_FLUSH, False
        self._can_advance = self.is_under_min_isr = False

    def configure(self, min_insync_replicas: int, flush_messages: int, *, flush_before_ack: bool) -> None:
        """Apply the configs of the topic."""
        self._min_insync_replicas, self._flush_messages = min_insync_replicas, flush_messages
        self._flush_before_ack = flush_before_ack
        self._note_change()

    def lead(self, epoch: int, replica_count: int = 1, isr_size: int = 1) -> None:
        """Lead in this epoch, or with an ISR of another size."""
        self.is_leader, self.epoch = True, epoch
        self._replica_count, self._isr_size = replica_count, isr_size
        self._note_change()

    def resign(self, epoch: int) -> None:
        """Stop leading: another broker, or none, leads in this epoch."""
        self.is_leader, self.epoch = False, epoch
        self._note_change()

    def require_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Check the leader epoch of a client, -1 if unknown.

        ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.
        """
        if current_leader_epoch not in (NO_EPOCH, self.epoch):
            older = current_leader_epoch < self.epoch
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not self.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def require_min_isr(self) -> None:
        """Check, before an append with acks=all, that the ISR is large enough. ApiError: NOT_ENOUGH_REPLICAS."""
        if self.is_under_min_isr:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def advance(self, log_end_offset: int, durable_offset: int) -> bool:
        """Raise the high watermark as far as the log allows. True if it rose."""
        offset = durable_offset if self._flush_before_ack else log_end_offset
        if offset <= self.high_watermark or not self._can_advance:
            return False
        self.high_watermark = offset
        return True

    def flush_due(self, log_end_offset: int, durable_offset: int) -> bool:
        """Whether the log must be flushed before its newest records are acknowledged, whatever `acks` is."""
        unflushed = log_end_offset - durable_offset
        return unflushed >= self._flush_messages or (unflushed > 0 and self._flush_before_ack)

    def is_committed(self, end_offset: int) -> bool:
        """Whether all records below `end_offset` are committed, so that acks=all may be acknowledged.

        ApiError: NOT_ENOUGH_REPLICAS_AFTER_APPEND when they are, but the ISR has become too small.
        """
        if self.high_watermark < end_offset:
            return False
        if self.is_under_min_isr:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

    def upper_offset(self, last_stable_offset: int, *, committed_only: bool) -> int:
        """Return the offset at which a consumer's view ends; `committed_only` for isolation level read_committed."""
        return min(last_stable_offset, self.high_watermark) if committed_only else self.high_watermark

    def _note_change(self) -> None:
        self.is_under_min_isr = self._isr_size < min(self._min_insync_replicas, self._replica_count)
        # No follower's offset is known here, so only an ISR of the leader alone commits what the leader has.
        self._can_advance = self.is_leader and self._isr_size == 1 and not self.is_under_min_isr
