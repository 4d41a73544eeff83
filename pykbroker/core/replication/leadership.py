"""The leadership of one partition, and the high watermark that follows from it (KIP-101, KIP-320, KIP-966)."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.followers import NO_LIMIT, ActiveBrokers, Followers
from wire.error_codes import ErrorCode

NO_EPOCH = -1
NO_FLUSH = (1 << 63) - 1
"""The default of `flush.messages`, which never causes a flush."""
STANDS = -1
"""The limit of a high watermark that must not rise."""
NOBODY: ActiveBrokers = {}


class Leadership:
    """The leadership of a partition: whether this broker leads, in which epoch, and which records are committed.

    All records below `high_watermark` are committed. `is_under_min_isr` is true if the committed ISR is smaller than
    the effective `min.insync.replicas`, which is never larger than the number of replicas. `followers` is None unless
    this broker leads a partition with other replicas. `epoch_start` is the log end offset at the begin of the leader
    epoch.
    """

    __slots__ = (
        "_flush_before_ack",
        "_flush_messages",
        "_limit",
        "_min_insync_replicas",
        "absence",
        "epoch",
        "epoch_start",
        "followers",
        "has_leader",
        "high_watermark",
        "is_leader",
        "is_under_min_isr",
        "partition_epoch",
    )

    def __init__(self, high_watermark: int = 0) -> None:
        """Start as a follower, with the high watermark of the checkpoint."""
        self.is_leader, self.epoch, self.high_watermark = False, NO_EPOCH, high_watermark
        self.partition_epoch, self.epoch_start = NO_EPOCH, 0
        self.followers: Followers | None = None
        self.has_leader = False
        """Whether another broker leads in this epoch, so that the high watermark follows that broker's."""
        self.absence = ErrorCode.NOT_LEADER_OR_FOLLOWER
        """The error for clients while this broker does not lead."""
        self._min_insync_replicas, self._limit = 1, STANDS
        self._flush_messages, self._flush_before_ack = NO_FLUSH, False
        self.is_under_min_isr = False

    def configure(self, min_insync_replicas: int, flush_messages: int, *, flush_before_ack: bool) -> None:
        """Apply the configs of the topic. The caller then refreshes the limit of the high watermark (`refresh`)."""
        self._min_insync_replicas, self._flush_messages = min_insync_replicas, flush_messages
        self._flush_before_ack = flush_before_ack
        self.note_isr()

    # ---- roles

    def lead(self, node_id: int, placed: PartitionImage, log_end_offset: int, now_ms: float) -> None:
        """Become the leader in the metadata's leader epoch, or apply newer metadata of the same epoch.

        The caller then refreshes the limit of the high watermark (`refresh`).
        """
        if not self.is_leader or placed.leader_epoch != self.epoch:
            self.is_leader, self.epoch, self.epoch_start = True, placed.leader_epoch, log_end_offset
            self.followers = None
        elif placed.partition_epoch <= self.partition_epoch:
            return
        self.partition_epoch = placed.partition_epoch
        if len(placed.replicas) == 1:
            self.followers = None
        elif self.followers is None:
            self.followers = Followers(node_id, placed, self.epoch_start, now_ms)
        else:
            self.followers.apply(placed)
        self.note_isr()

    def resign(self, epoch: int, *, has_leader: bool = False, is_deleted: bool = False) -> None:
        """Stop being leader: in this epoch another broker leads if `has_leader`, or none.

        A partition that is deleted is unknown to clients from now on.
        """
        self.absence = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_deleted else ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.is_leader, self.epoch, self.followers = False, epoch, None
        self.has_leader = has_leader
        self.partition_epoch = NO_EPOCH
        self.note_isr()

    def require_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Check that this broker leads, in the leader epoch that the client knows (-1 if none).

        Raise ApiError FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER otherwise, or
        UNKNOWN_TOPIC_OR_PARTITION for a deleted partition.
        """
        self.require_epoch(current_leader_epoch)
        if not self.is_leader:
            raise ApiError(self.absence)

    def require_led_in(self, epoch: int) -> None:
        """Raise ApiError NOT_LEADER_OR_FOLLOWER unless this broker still leads in the epoch of an earlier append."""
        if not self.is_leader or self.epoch != epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def require_epoch(self, current_leader_epoch: int) -> None:
        """Raise ApiError FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH if the client knows another leader epoch."""
        if current_leader_epoch not in (NO_EPOCH, self.epoch):
            older = current_leader_epoch < self.epoch
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)

    # ---- the high watermark

    def refresh(self, log_end_offset: int, active: ActiveBrokers, now_ms: float, lag_ms_max: float) -> None:
        """Compute how far followers let the high watermark rise, after a fetch, a change of the ISR, or some time."""
        if not self.is_leader or self.is_under_min_isr:
            self._limit = STANDS
        elif self.followers is None:
            self._limit = NO_LIMIT
        else:
            self._limit = self.followers.limit(log_end_offset, active, now_ms, lag_ms_max)

    def advance(self, log_end_offset: int, durable_offset: int) -> bool:
        """Raise the high watermark as far as the log and the followers allow. Return whether it rose."""
        offset = durable_offset if self._flush_before_ack else log_end_offset
        if offset > self._limit:
            offset = self._limit
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def follow(self, high_watermark: int, log_end_offset: int) -> bool:
        """Take over the leader's high watermark, up to the own log end offset. Return whether it rose."""
        offset = min(high_watermark, log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def truncate(self, log_end_offset: int) -> None:
        """Lower the high watermark to the end of a truncated log."""
        self.high_watermark = min(self.high_watermark, log_end_offset)

    def restart(self, log_start_offset: int) -> None:
        """Set the high watermark to the start of a log that was begun anew there."""
        self.high_watermark = log_start_offset

    @property
    def knows_latest(self) -> bool:
        """Whether the high watermark has reached the begin of the leader epoch (KIP-207).

        Until then, a client that asks for the latest offset might get one below an earlier answer.
        """
        return self.followers is None or self.high_watermark >= self.epoch_start

    # ---- acknowledgement

    def require_min_isr(self) -> None:
        """Raise ApiError NOT_ENOUGH_REPLICAS if the ISR is too small for an append with acks=all."""
        if self.is_under_min_isr:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def flush_due(self, log_end_offset: int, durable_offset: int) -> bool:
        """Whether the log must be flushed before its newest records are acknowledged, whatever `acks` is."""
        unflushed = log_end_offset - durable_offset
        return unflushed >= self._flush_messages or (unflushed > 0 and self._flush_before_ack)

    @property
    def flushes_before_ack(self) -> bool:
        """Whether a record must be durable before it is acknowledged, or before a follower fetches the next one."""
        return self._flush_before_ack

    def is_committed(self, end_offset: int) -> bool:
        """Whether all records below `end_offset` are committed, so that acks=all may be acknowledged.

        Raise ApiError NOT_ENOUGH_REPLICAS_AFTER_APPEND if they are, but the ISR has become too small.
        """
        if self.high_watermark < end_offset:
            return False
        if self.is_under_min_isr and self.followers is not None and self._is_short(len(self.followers.maximal_isr)):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

    def upper_offset(self, last_stable_offset: int, *, committed_only: bool) -> int:
        """Return the offset before which a consumer may read. `committed_only` means isolation level read_committed."""
        return min(last_stable_offset, self.high_watermark) if committed_only else self.high_watermark

    def note_isr(self) -> None:
        """Apply a change of the committed ISR. The caller then refreshes the limit of the high watermark."""
        followers = self.followers
        self.is_under_min_isr = followers is not None and self._is_short(len(followers.isr))

    @property
    def is_under_replicated(self) -> bool:
        """Whether this broker leads, and the ISR is smaller than the replication factor."""
        return self.followers is not None and len(self.followers.isr) < self.followers.replication_factor

    @property
    def is_at_min_isr(self) -> bool:
        """Whether this broker leads, and the ISR has exactly the effective `min.insync.replicas`."""
        isr_size = 1 if self.followers is None else len(self.followers.isr)
        return self.is_leader and isr_size == self._effective_min_isr

    @property
    def is_reassigning(self) -> bool:
        """Whether this broker leads, and a reassignment adds or removes replicas."""
        return self.followers is not None and self.followers.is_reassigning

    @property
    def _effective_min_isr(self) -> int:
        return min(self._min_insync_replicas, 1 if self.followers is None else 1 + len(self.followers))

    def _is_short(self, isr_size: int) -> bool:
        return isr_size < self._effective_min_isr
