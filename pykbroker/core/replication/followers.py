"""The other replicas of a partition, as its leader knows them, and the ISR (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.core.metadata.ids import LOST
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.follower_state import UNKNOWN_BROKER_EPOCH, FollowerState
from pykbroker.core.replication.isr_change import GIVEN_UP, OUTDATED, IsrAnswer, IsrChange
from wire.error_codes import ErrorCode

LONG_AGO_MS = float("-inf")
NO_LIMIT = (1 << 63) - 1
"""The limit of the high watermark if no follower counts."""

ActiveBrokers = Mapping[int, int]
"""The broker epochs of the brokers that are neither fenced nor stopping, by broker id."""


class Followers:
    """The followers of a partition in one leader epoch of this broker, which is `node_id`.

    `isr` is the committed ISR, in the metadata of `partition_epoch`. `pending` is the change that the controller has
    not answered yet, or None. `epoch_start` is the offset at which the leader epoch began. `replication_factor` leaves
    out the replicas that a reassignment adds.

    Our controller refuses an ISR with a replica whose log directory is reported as lost, and Kafka's accepts it. A
    replica that was refused for that is not proposed again, and the high watermark does not wait for it, until there is
    newer metadata of the partition.
    """

    __slots__ = (
        "_barred",
        "_node_id",
        "_placed",
        "_states",
        "epoch_start",
        "is_reassigning",
        "isr",
        "leader_epoch",
        "partition_epoch",
        "pending",
        "replication_factor",
    )

    def __init__(self, node_id: int, placed: PartitionImage, epoch_start: int, now_ms: float) -> None:
        self._node_id, self.epoch_start = node_id, epoch_start
        self.leader_epoch, self.partition_epoch = placed.leader_epoch, placed.partition_epoch
        self.isr = placed.isr
        self.pending: IsrChange | None = None
        self._note_placement(placed)
        self._states = {
            broker_id: FollowerState(now_ms if broker_id in placed.isr else LONG_AGO_MS)
            for broker_id in placed.replicas
            if broker_id != node_id
        }

    def __len__(self) -> int:
        return len(self._states)

    def get(self, broker_id: int) -> FollowerState | None:
        """Return the state of a follower, or None if the broker has no other replica of the partition."""
        return self._states.get(broker_id)

    @property
    def states(self) -> Mapping[int, FollowerState]:
        """Return the states of the followers by broker id."""
        return self._states

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Return the committed ISR together with the members that the pending change adds."""
        pending = self.pending
        if pending is None:
            return self.isr
        return self.isr + tuple(broker_id for broker_id in pending.members if broker_id not in self.isr)

    def apply(self, placed: PartitionImage) -> bool:
        """Apply metadata of the same leader epoch. Return False if it is not newer, and has no effect.

        New metadata ends a pending change.
        """
        if placed.partition_epoch <= self.partition_epoch:
            return False
        self.partition_epoch, self.isr, self.pending = placed.partition_epoch, placed.isr, None
        self._note_placement(placed)
        self._states = {
            broker_id: self._states.get(broker_id) or FollowerState(LONG_AGO_MS)
            for broker_id in placed.replicas
            if broker_id != self._node_id
        }
        return True

    def _note_placement(self, placed: PartitionImage) -> None:
        self._placed = placed
        self._barred: frozenset[int] = frozenset()
        self.replication_factor = len(placed.replicas) - len(placed.adding)
        self.is_reassigning = bool(placed.adding or placed.removing)

    # ---- the high watermark

    def limit(self, leader_end_offset: int, active: ActiveBrokers, now_ms: float, lag_ms_max: float) -> int:
        """Return the offset that the high watermark may not exceed because of followers, or NO_LIMIT.

        The members of the maximal ISR count, and so do eligible replicas that are caught up, which join the ISR soon.
        """
        limit, maximal = NO_LIMIT, self.maximal_isr
        for broker_id, state in self._states.items():
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

    @staticmethod
    def _is_eligible(broker_id: int, state: FollowerState, active: ActiveBrokers) -> bool:
        registered = active.get(broker_id)
        return registered is not None and state.broker_epoch in (UNKNOWN_BROKER_EPOCH, registered)

    def caught_up(self, leader_end_offset: int) -> set[int]:
        """Return the members of the committed ISR that have all records of the leader, without the leader."""
        return {
            broker_id
            for broker_id, state in self._states.items()
            if broker_id in self.isr and state.log_end_offset >= leader_end_offset
        }

    # ---- changes of the ISR

    def grown(
        self, broker_id: int, high_watermark: int, active: ActiveBrokers, leader_broker_epoch: int
    ) -> IsrChange | None:
        """Return the change that adds this follower to the ISR, or None if it cannot join. The change is pending then.

        A follower joins once it has all committed records and the begin of the leader epoch.
        """
        state = self._states.get(broker_id)
        if (
            self.pending is not None
            or state is None
            or broker_id in self.isr
            or broker_id in self._barred
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
            if (state := self._states.get(broker_id)) is None
            or state.is_caught_up(leader_end_offset, now_ms, lag_ms_max)
        )
        return None if kept == self.isr else self._propose(kept, leader_broker_epoch)

    def _propose(self, members: tuple[int, ...], leader_broker_epoch: int) -> IsrChange:
        states = self._states
        isr = tuple(
            (broker_id, states[broker_id].broker_epoch if broker_id in states else leader_broker_epoch)
            for broker_id in members
        )
        self.pending = IsrChange(self.leader_epoch, self.partition_epoch, isr)
        return self.pending

    def settle(self, change: IsrChange, answer: IsrAnswer) -> bool:
        """Apply the controller's answer to `change`. Return whether the same change must be sent again.

        An answer to a change that is no longer pending has no effect.
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
        if answer.leader_epoch == self.leader_epoch and answer.partition_epoch >= self.partition_epoch:
            self.isr, self.partition_epoch, self.pending = answer.isr, answer.partition_epoch, None
        return False
