"""One follower, as the leader of its partition knows it from its fetches (KIP-903)."""

from __future__ import annotations

from wire.sentinels import NO_BROKER_EPOCH, NO_OFFSET


class FollowerState:
    """The offsets of one follower.

    `log_end_offset` is the offset of its last fetch, and `caught_up_ms` the last time at which it had all records of
    the leader. Before its first fetch from this leader, its offsets are below every log start offset. `broker_epoch` is
    NO_BROKER_EPOCH if it fetches with a version below 15.
    """

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "fetched_ms",
        "leader_end_offset",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, caught_up_ms: float) -> None:
        self.log_end_offset = self.log_start_offset = self.leader_end_offset = NO_OFFSET
        self.caught_up_ms = self.fetched_ms = caught_up_ms
        self.broker_epoch = NO_BROKER_EPOCH

    def note_fetch(
        self, offset: int, log_start_offset: int, leader_end_offset: int, broker_epoch: int, now_ms: float
    ) -> None:
        """Record a fetch at `offset` while the leader's log ended at `leader_end_offset`."""
        if offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        # It has all records of the time of its last fetch. If records are always appended between its fetches, it
        # never has more, and is in sync all the same.
        elif offset >= self.leader_end_offset != NO_OFFSET:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset, self.log_start_offset = offset, log_start_offset
        self.leader_end_offset = max(self.leader_end_offset, leader_end_offset)
        self.fetched_ms, self.broker_epoch = now_ms, broker_epoch

    def note_session(self, fetched_ms: float) -> None:
        """Record that the follower's fetch session repeated its last fetch at `fetched_ms` (KIP-227).

        The caller calls this before the leader's log grows, so that the follower had all records then.
        """
        if self.log_end_offset >= self.leader_end_offset != NO_OFFSET:
            self.caught_up_ms = max(self.caught_up_ms, fetched_ms)
        self.fetched_ms = max(self.fetched_ms, fetched_ms)

    def is_caught_up(self, leader_end_offset: int, now_ms: float, lag_ms_max: float) -> bool:
        """Whether the follower has all records, or had them within `lag_ms_max` (replica.lag.time.max.ms)."""
        return self.log_end_offset >= leader_end_offset or now_ms - self.caught_up_ms <= lag_ms_max
