"""The keeper of the ISRs and high watermarks of the partitions that this broker leads with followers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.log.refused_sequences import RefusalLimit
from pykbroker.core.metadata.image import ClusterImage
from pykbroker.core.replication.follower_state import UNKNOWN_BROKER_EPOCH, FollowerState
from pykbroker.core.replication.isr_change import IsrAnswer, IsrChange
from pykbroker.core.replication.unwritable import Unwritable
from wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from pykbroker.replica.partition import Partition

LAG_MS_MAX = 30_000
"""The default of replica.lag.time.max.ms."""
NO_NODE = -1


class IsrKeeper:
    """The keeper of broker `node_id`, which all its partitions share: other brokers, and changes of ISRs to propose.

    `active` has the broker epochs of the brokers that are neither fenced nor stopping, and `registered` those of all
    brokers that have registered. `take` waits for the proposed changes that no request has taken yet. `expansions` and
    `shrinks` count the proposed changes that were committed, and `refusals` those that the controller refused. `damage`
    is set when a replica is found damaged, and when the metadata of a replica in repair has changed.
    `refused_sequences_limit` bounds the refused sequences that all partitions remember. `unwritable` has the replicas
    that refuse appends, and `has_unwritable` is set when there is another one.
    """

    def __init__(self, node_id: int = NO_NODE, lag_ms_max: float = LAG_MS_MAX) -> None:
        self.node_id, self.lag_ms_max = node_id, lag_ms_max
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.active: Mapping[int, int] = {}
        self.registered: Mapping[int, int] = {}
        self.expansions = self.shrinks = self.refusals = 0
        self._proposed: dict[Partition, IsrChange] = {}
        self._has_proposed = trio.Event()
        self.damage = trio.Event()
        self.refused_sequences_limit = RefusalLimit()
        self.unwritable: dict[Partition, Unwritable] = {}
        self.has_unwritable = trio.Event()

    @property
    def now_ms(self) -> float:
        """Return the time of trio's clock in ms."""
        return trio.current_time() * 1000

    def apply(self, cluster: ClusterImage) -> None:
        """Take over the broker epochs of the metadata."""
        self.active = {broker.id: broker.epoch for broker in cluster.active()}
        self.registered = {broker.id: broker.epoch for broker in cluster.brokers.values()}
        self.broker_epoch = self.registered.get(self.node_id, UNKNOWN_BROKER_EPOCH)

    def note_damage(self) -> None:
        """Wake the task that repairs replicas."""
        self.damage.set()

    def note_refused_append(self, partition: Partition) -> None:
        """Note that a replica refused an append for lack of room, or that its log could not be opened."""
        unwritable = self.unwritable.get(partition)
        if unwritable is not None:
            unwritable.note_refused_append(self.now_ms, partition.written_offset)
        else:
            self.unwritable[partition] = Unwritable(self.now_ms, partition.written_offset)
            self.has_unwritable.set()

    # ---- fetches

    def follower(self, partition: Partition, broker_id: int, broker_epoch: int, leader_epoch: int) -> FollowerState:
        """Return the state of a follower that fetches.

        Raise UNKNOWN_LEADER_EPOCH if the broker has no replica in the leader epoch that it knows. Raise
        NOT_LEADER_OR_FOLLOWER if it knows no leader epoch, or if its broker has registered again since (KIP-903).
        A broker epoch above the registered one is valid, since the metadata may arrive later than the fetch.
        """
        leading = partition.leading
        state = None if leading is None else leading.followers.get(broker_id)
        if state is None:
            known = leader_epoch >= 0
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH if known else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if UNKNOWN_BROKER_EPOCH != broker_epoch < self.registered.get(broker_id, UNKNOWN_BROKER_EPOCH):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return state

    def note_fetch(
        self, partition: Partition, broker_id: int, broker_epoch: int, offset: int, log_start_offset: int
    ) -> None:
        """Record a follower's fetch at `offset`, which acknowledges all records below. The follower may join the
        ISR."""
        log, leading = partition.log, partition.leading
        state = None if leading is None else leading.followers.get(broker_id)
        if log is None or leading is None or state is None:
            return
        before = state.log_end_offset, state.log_start_offset
        state.note_fetch(offset, log_start_offset, log.state.log_end_offset, broker_epoch, self.now_ms)
        if broker_id not in leading.isr:
            self._propose(partition, leading.grown(broker_id, partition.high_watermark, self.active, self.broker_epoch))
        if before != (offset, log_start_offset):
            partition.refresh()
            if before[1] != log_start_offset:
                partition.wake()

    # ---- changes of the ISR

    def check(self, partition: Partition) -> None:
        """Propose to remove the followers that have not been caught up for `lag_ms_max`."""
        log, leading = partition.log, partition.leading
        if log is None or leading is None or not leading.followers:
            return
        partition.refresh()
        end = log.state.log_end_offset
        self._propose(partition, leading.shrunk(end, self.now_ms, self.lag_ms_max, self.broker_epoch))

    def settle(self, partition: Partition, change: IsrChange, answer: IsrAnswer) -> bool:
        """Apply the controller's answer to a change.

        Return whether the change must be sent again. It is proposed again then.
        """
        leading = partition.leading
        if leading is None:
            return False
        before, was_pending = leading.isr, leading.pending is change
        again = leading.settle(change, answer)
        if was_pending and leading.pending is None and answer.error is ErrorCode.NONE:
            self.count(before, leading.isr)
        self.refusals += answer.error is not ErrorCode.NONE
        if again:
            self._propose(partition, change)
        partition.refresh()
        partition.note_isr()
        return again

    def count(self, before: Sequence[int], after: Sequence[int]) -> None:
        """Count a proposed change that was committed, by the ISRs before and after it."""
        self.expansions += len(after) > len(before)
        self.shrinks += len(after) < len(before)

    def _propose(self, partition: Partition, change: IsrChange | None) -> None:
        if change is not None:
            self._proposed[partition] = change
            self._has_proposed.set()

    async def take(self) -> dict[Partition, IsrChange]:
        """Wait for proposed changes, and return all that are still pending."""
        while True:
            await self._has_proposed.wait()
            self._has_proposed = trio.Event()
            taken, self._proposed = self._proposed, {}
            pending = {
                partition: change
                for partition, change in taken.items()
                if partition.leading is not None and partition.leading.pending is change
            }
            if pending:
                return pending
