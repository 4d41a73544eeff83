"""The state of one assigned partition: whether it can be fetched, from which offset, and from which broker."""

from __future__ import annotations

from enum import Enum

from pykbroker.core.consumer.offset_reset import ResetStrategy
from pykbroker.core.consumer.position import FetchPosition, PartitionLeader
from wire.declare import NIL
from wire.sentinels import NO_LEADER_EPOCH


class FetchState(Enum):
    """The states of a partition.

    A partition has a position in FETCHING and AWAIT_VALIDATION, and is fetched in FETCHING.
    """

    INITIALIZING = "initializing"
    FETCHING = "fetching"
    AWAIT_RESET = "awaiting reset"
    AWAIT_VALIDATION = "awaiting validation"


class AssignedPartition:
    """An assigned partition. The offsets of its log are None until a response has them.

    `is_revoking` and `awaits_listener` stop fetching while a rebalance listener is to be called. `era` stands for the
    time since the last move by the user: what was received in an earlier one is stale.
    """

    __slots__ = (
        "_replica",
        "_replica_until_ms",
        "awaits_listener",
        "damaged_offset",
        "era",
        "fetch_at_ms",
        "high_watermark",
        "is_paused",
        "is_revoking",
        "last_stable_offset",
        "log_start_offset",
        "position",
        "reset",
        "retry_at_ms",
        "state",
        "topic_id",
    )

    def __init__(self) -> None:
        self.state = FetchState.INITIALIZING
        self.position: FetchPosition | None = None
        self.reset: ResetStrategy | None = None
        self.era = object()
        self.retry_at_ms = self.fetch_at_ms = 0.0
        """The times before which no offset is looked up, and no record fetched, since the last request failed."""
        self.damaged_offset: int | None = None
        """The offset of a batch that could not be read, once or more often."""
        self.is_paused = self.is_revoking = self.awaits_listener = False
        self.topic_id = NIL
        """The id of the topic that the position belongs to, or the nil id while it is unknown."""
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self._replica: int | None = None
        self._replica_until_ms = 0.0

    @property
    def needs_position(self) -> bool:
        """Whether the partition waits for its committed offset."""
        return self.state is FetchState.INITIALIZING and not self.is_revoking

    @property
    def is_fetchable(self) -> bool:
        """Whether records may be fetched and returned."""
        held = self.is_paused or self.is_revoking or self.awaits_listener
        return self.state is FetchState.FETCHING and not held

    def may_ask(self, state: FetchState, now_ms: float) -> bool:
        """Whether the partition is in this state and the backoff after its last failed request is over."""
        return self.state is state and now_ms >= self.retry_at_ms

    def seek(self, position: FetchPosition) -> None:
        """Move to a position that needs no validation."""
        self.state, self.position, self.reset, self.retry_at_ms = FetchState.FETCHING, position, None, 0.0

    def seek_unvalidated(self, position: FetchPosition) -> None:
        """Move to a position, which is validated first if its epoch and the leader's epoch are known."""
        self.seek(position)
        if position.epoch != NO_LEADER_EPOCH and position.leader.epoch != NO_LEADER_EPOCH:
            self.state = FetchState.AWAIT_VALIDATION

    def request_reset(self, strategy: ResetStrategy) -> None:
        """Drop the position, and wait for the offset that the strategy selects."""
        self.state, self.position, self.reset, self.retry_at_ms = FetchState.AWAIT_RESET, None, strategy, 0.0

    def move(self, position: FetchPosition) -> None:
        """Move to where the user says, which begins an era. The position is validated as in `seek_unvalidated`."""
        validates = position.epoch != NO_LEADER_EPOCH and position.leader.epoch != NO_LEADER_EPOCH
        state, era = FetchState.AWAIT_VALIDATION if validates else FetchState.FETCHING, object()
        # No function is called between these stores: an interrupt finds either none or all of them done.
        self.state, self.position, self.reset, self.retry_at_ms = state, position, None, 0.0
        self.era, self.damaged_offset, self.fetch_at_ms = era, None, 0.0

    def move_by(self, strategy: ResetStrategy) -> None:
        """Reset to where the user says. An era begins."""
        state, era = FetchState.AWAIT_RESET, object()
        self.state, self.position, self.reset, self.retry_at_ms = state, None, strategy, 0.0
        self.era, self.damaged_offset, self.fetch_at_ms = era, None, 0.0

    def advance(self, offset: int, epoch: int) -> None:
        """Move past records that the user receives. `epoch` is the leader epoch of the last of them."""
        position = self.position
        assert position is not None, "only a partition with a position has records"
        assert offset >= position.offset, "a position moves back only by a seek or a reset"
        self.position = FetchPosition(offset, epoch, position.leader)

    def leader_changed(self, leader: PartitionLeader, *, validates: bool) -> None:
        """Note the current leader. The position is validated again, unless the leader does not support it."""
        if leader.node is None or self.position is None or self.position.leader == leader:
            return
        position, self.fetch_at_ms = self.position._replace(leader=leader), 0.0
        if validates:
            self._replica = None
            self.seek_unvalidated(position)
        else:
            self.seek(position)

    def validated(self) -> None:
        """Fetch from the position, which the leader's log has."""
        assert self.position is not None, "only a position is validated"
        self.state, self.retry_at_ms = FetchState.FETCHING, 0.0

    def read_replica(self, now_ms: float) -> int | None:
        """Return the node id of the preferred read replica (KIP-392), or None to fetch from the leader."""
        if self._replica is not None and now_ms > self._replica_until_ms:
            self._replica = None
        return self._replica

    def prefer_replica(self, node: int, until_ms: float) -> None:
        """Fetch from this node until `until_ms`."""
        if node != self._replica:
            self._replica, self._replica_until_ms = node, until_ms

    def clear_replica(self) -> bool:
        """Fetch from the leader again. Return whether there was a preferred read replica."""
        had, self._replica = self._replica is not None, None
        return had
