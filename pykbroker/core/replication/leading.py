"""The leadership of a partition in one leader epoch: the followers, the ISR, and the limit of the high watermark.

KIP-497, KIP-841 and KIP-903 are about the ISR, KIP-207 and KIP-966 about the high watermark.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.core.errors import ApiError
from pykbroker.core.ids import LOST
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.follower_state import FollowerState
from pykbroker.core.replication.isr_change import GIVEN_UP, OUTDATED, IsrAnswer, IsrChange
from wire.error_codes import ErrorCode
from wire.sentinels import NO_BROKER_EPOCH

LONG_AGO_MS = float("-inf")
STANDS = -1
"""The limit of a high watermark that must not rise."""
NO_LIMIT = (1 << 63) - 1
"""The limit of the high watermark if no follower counts."""

ActiveBrokers = Mapping[int, int]
"""The broker epochs of the brokers that are neither fenced nor stopping, by broker id."""


class Leading:
    """The role of broker `node_id` while it leads a partition in one leader epoch.

    `epoch_start` is the log end offset at the begin of the leader epoch. `followers` are the states of the other
    replicas by broker id. `isr` is the committed ISR, in the metadata of `partition_epoch`. `pending` is the change
    that the controller has not answered yet, or None. `is_under_min_isr` is true if the committed ISR is smaller than
    the effective `min.insync.replicas`, which is never larger than the number of replicas. `replication_factor` leaves
    out the replicas that a reassignment adds.

    Our controller refuses an ISR with a replica whose log directory is reported as lost, and Kafka's accepts it. A
    replica that was refused for that is not proposed again, and the high watermark does not wait for it, until there is
    newer metadata of the partition.
    """

    __slots__ = (
        "_barred",
        "_flush_before_ack",
        "_limit",
        "_min_insync_replicas",
        "_node_id",
        "_placed",
        "epoch",
        "epoch_start",
        "followers",
        "is_reassigning",
        "is_under_min_isr",
        "isr",
        "partition_epoch",
        "pending",
        "replication_factor",
    )

    def __init__(self, node_id: int, placed: PartitionImage, epoch_start: int, now_ms: float) -> None:
        """Begin the leader epoch of this metadata. The caller then applies the configs and refreshes the limit."""
        self._node_id, self.epoch, self.epoch_start = node_id, placed.leader_epoch, epoch_start
        self._min_insync_replicas, self._flush_before_ack, self._limit = 1, False, STANDS
        self.followers = {
            broker_id: FollowerState(now_ms if broker_id in placed.isr else LONG_AGO_MS)
            for broker_id in placed.replicas
            if broker_id != node_id
        }
        self._place(placed)

    def configure(self, min_insync_replicas: int, *, flush_before_ack: bool) -> None:
        """Apply the configs of the topic. The caller then refreshes the limit of the high watermark."""
        self._min_insync_replicas, self._flush_before_ack = min_insync_replicas, flush_before_ack
        self._note_isr()

    def apply(self, placed: PartitionImage) -> bool:
        """Apply metadata of the same leader epoch, unless it is older. Return whether it commits `pending`.

        New metadata ends a pending change: it may arrive before the controller's answer, which then has no effect. If
        the answer was first, the metadata has its partition epoch, and what the answer lacks: the replicas, and the end
        of a reassignment. The caller then refreshes the limit of the high watermark.
        """
        # The controller's answer to a change of the ISR may be ahead of the metadata that this broker has applied.
        if placed.partition_epoch < self.partition_epoch:
            return False
        is_known, pending = placed.partition_epoch == self.partition_epoch, self.pending
        self.followers = {
            broker_id: self.followers.get(broker_id) or FollowerState(LONG_AGO_MS)
            for broker_id in placed.replicas
            if broker_id != self._node_id
        }
        if is_known:
            self._place(placed, pending, self._barred)
            return False
        self._place(placed)
        return pending is not None and set(placed.isr) == set(pending.members)

    def _place(
        self, placed: PartitionImage, pending: IsrChange | None = None, barred: frozenset[int] = frozenset()
    ) -> None:
        self.partition_epoch, self.isr = placed.partition_epoch, placed.isr
        self.pending, self._barred = pending, barred
        self._placed = placed
        self.replication_factor = len(placed.replicas) - len(placed.adding)
        self.is_reassigning = bool(placed.adding or placed.removing)
        self._note_isr()

    # ---- the high watermark

    def refresh(self, leader_end_offset: int, active: ActiveBrokers, now_ms: float, lag_ms_max: float) -> None:
        """Compute how far followers let the high watermark rise, after a fetch, a change of the ISR, or some time."""
        self._limit = STANDS if self.is_under_min_isr else self.limit(leader_end_offset, active, now_ms, lag_ms_max)

    def limit(self, leader_end_offset: int, active: ActiveBrokers, now_ms: float, lag_ms_max: float) -> int:
        """Return the offset that the high watermark may not exceed because of followers, or NO_LIMIT.

        The members of the maximal ISR count, and so do eligible replicas that are caught up, which join the ISR soon.
        """
        limit, maximal = NO_LIMIT, self.maximal_isr
        for broker_id, state in self.followers.items():
            # The cheap comparison first: most followers are at or above the limit that another one has set.
            if state.log_end_offset < limit and (
                broker_id in maximal
                or (
                    broker_id not in self._barred
                    and state.is_caught_up(leader_end_offset, now_ms, lag_ms_max)
                    and self._is_eligible(broker_id, state, active)
                )
            ):
                limit = state.log_end_offset
        return limit

    def committed(self, log_end_offset: int, durable_offset: int) -> int:
        """Return the offset below which log and followers have all records. The high watermark rises to it."""
        offset = durable_offset if self._flush_before_ack else log_end_offset
        return offset if offset < self._limit else self._limit

    def is_committed(self, end_offset: int, high_watermark: int) -> bool:
        """Whether all records below `end_offset` are committed, so that acks=all may be acknowledged.

        Raise ApiError NOT_ENOUGH_REPLICAS_AFTER_APPEND if they are, but the ISR has become too small.
        """
        if high_watermark < end_offset:
            return False
        # The records are in all members of the ISR, but so few that one loss could take them (KIP-966).
        if self.is_under_min_isr and self._is_short(len(self.maximal_isr)):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

    def knows_latest(self, high_watermark: int) -> bool:
        """Whether the high watermark has reached the begin of the leader epoch (KIP-207).

        Until then, a client that asks for the latest offset might get one below an earlier answer.
        """
        return not self.followers or high_watermark >= self.epoch_start

    def caught_up(self, leader_end_offset: int) -> set[int]:
        """Return the members of the committed ISR that have all records of the leader, without the leader."""
        return {
            broker_id
            for broker_id, state in self.followers.items()
            if broker_id in self.isr and state.log_end_offset >= leader_end_offset
        }

    # ---- the ISR

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Return the committed ISR together with the members that the pending change adds."""
        pending = self.pending
        if pending is None:
            return self.isr
        return self.isr + tuple(broker_id for broker_id in pending.members if broker_id not in self.isr)

    def require_min_isr(self) -> None:
        """Raise ApiError NOT_ENOUGH_REPLICAS if the ISR is too small for an append with acks=all."""
        if self.is_under_min_isr:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    @property
    def is_under_replicated(self) -> bool:
        """Whether the ISR is smaller than the replication factor."""
        return len(self.isr) < self.replication_factor

    @property
    def is_at_min_isr(self) -> bool:
        """Whether the ISR has exactly the effective `min.insync.replicas`."""
        return len(self.isr) == self._effective_min_isr

    @property
    def _effective_min_isr(self) -> int:
        return min(self._min_insync_replicas, 1 + len(self.followers))

    def _is_short(self, isr_size: int) -> bool:
        return isr_size < self._effective_min_isr

    def _note_isr(self) -> None:
        self.is_under_min_isr = self._is_short(len(self.isr))

    @staticmethod
    def _is_eligible(broker_id: int, state: FollowerState, active: ActiveBrokers) -> bool:
        registered = active.get(broker_id)
        return registered is not None and state.broker_epoch in (NO_BROKER_EPOCH, registered)

    # ---- changes of the ISR

    def grown(
        self, broker_id: int, high_watermark: int, active: ActiveBrokers, leader_broker_epoch: int
    ) -> IsrChange | None:
        """Return the change that adds this follower to the ISR, or None if it cannot join. The change is pending then.

        A follower joins once it has all committed records and the begin of the leader epoch.
        """
        state = self.followers.get(broker_id)
        if (
            self.pending is not None
            or state is None
            or broker_id in self.isr
            or broker_id in self._barred
            # At the high watermark alone, a member of the ISR could lack what an older leader epoch has committed.
            or state.log_end_offset < max(high_watermark, self.epoch_start)
            or not self._is_eligible(broker_id, state, active)
        ):
            return None
        return self._propose((*self.isr, broker_id), leader_broker_epoch)

    def shrunk(
        self, leader_end_offset: int, now_ms: float, lag_ms_max: float, leader_broker_epoch: int
    ) -> IsrChange | None:
        """Return the change that removes the followers that are not caught up, or None. The change is pending then."""
        if self.pending is not None:
            return None
        kept = tuple(
            broker_id
            for broker_id in self.isr
            # The leader itself has no state.
            if (state := self.followers.get(broker_id)) is None
            or state.is_caught_up(leader_end_offset, now_ms, lag_ms_max)
        )
        return None if kept == self.isr else self._propose(kept, leader_broker_epoch)

    def _propose(self, members: tuple[int, ...], leader_broker_epoch: int) -> IsrChange:
        followers = self.followers
        isr = tuple(
            (broker_id, followers[broker_id].broker_epoch if broker_id in followers else leader_broker_epoch)
            for broker_id in members
        )
        self.pending = IsrChange(self.epoch, self.partition_epoch, isr)
        return self.pending

    def settle(self, change: IsrChange, answer: IsrAnswer) -> bool:
        """Apply the controller's answer to `change`. Return whether the same change must be sent again.

        An answer to a change that is no longer pending has no effect. The caller then refreshes the limit of the high
        watermark.
        """
        if change is not self.pending or answer.error in OUTDATED:
            return False
        if answer.error in GIVEN_UP:
            self.pending = None
            if answer.error is ErrorCode.INELIGIBLE_REPLICA:
                self._barred = frozenset(one for one in change.members if self._placed.directory(one) == LOST)
            return False
        if answer.error is not ErrorCode.NONE:
            return True
        if answer.leader_epoch == self.epoch and answer.partition_epoch >= self.partition_epoch:
            self.isr, self.partition_epoch, self.pending = answer.isr, answer.partition_epoch, None
            self._note_isr()
        return False
