"""The leadership of one partition, and the high watermark that follows from it (KIP-101, KIP-320, KIP-966)."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode

NO_EPOCH = -1
NO_FLUSH = (1 << 63) - 1
"""The default of `flush.messages`, which never causes a flush."""


class Leadership:
    """The leadership of a partition: whether this broker leads, in which epoch, and which records are committed.

    All records below `high_watermark` are committed. `is_under_min_isr` is true if the ISR is smaller than the
    effective `min.insync.replicas`, which is never larger than the number of replicas.
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
        """Become leader in this epoch, or, as leader, change the size of the ISR."""
        self.is_leader, self.epoch = True, epoch
        self._replica_count, self._isr_size = replica_count, isr_size
        self._note_change()

    def resign(self, epoch: int) -> None:
        """Stop being leader: in this epoch another broker leads, or none."""
        self.is_leader, self.epoch = False, epoch
        self._note_change()

    def require_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Check that this broker leads, in the leader epoch that the client knows (-1 if none).

        Raise ApiError FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER otherwise.
        """
        if current_leader_epoch not in (NO_EPOCH, self.epoch):
            older = current_leader_epoch < self.epoch
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not self.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def require_min_isr(self) -> None:
        """Raise ApiError NOT_ENOUGH_REPLICAS if the ISR is too small for an append with acks=all."""
        if self.is_under_min_isr:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def advance(self, log_end_offset: int, durable_offset: int) -> bool:
        """Raise the high watermark as far as the log allows. Return whether it rose."""
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

        Raise ApiError NOT_ENOUGH_REPLICAS_AFTER_APPEND if they are, but the ISR has become too small.
        """
        if self.high_watermark < end_offset:
            return False
        if self.is_under_min_isr:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

    def upper_offset(self, last_stable_offset: int, *, committed_only: bool) -> int:
        """Return the offset before which a consumer may read. `committed_only` means isolation level read_committed."""
        return min(last_stable_offset, self.high_watermark) if committed_only else self.high_watermark

    def _note_change(self) -> None:
        self.is_under_min_isr = self._isr_size < min(self._min_insync_replicas, self._replica_count)
        # The offsets of followers are unknown here, so records are committed only if the leader alone is the ISR.
        self._can_advance = self.is_leader and self._isr_size == 1 and not self.is_under_min_isr
