"""The keeper of the ISRs of the partitions that this broker leads with followers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.follower_state import FollowerState
from pykbroker.core.replication.isr_change import IsrAnswer, IsrChange
from pykbroker.replica.partition.own_broker import OwnBroker
from pykbroker.replica.partition.partition import Partition
from pykbroker.world.portions import portions
from wire.error_codes import ErrorCode
from wire.sentinels import NO_BROKER_EPOCH


class IsrKeeper:
    """The changes of ISRs that the leader of a partition proposes, after fetches and the lack of them.

    `take` waits for the proposed changes that no request has taken yet.
    """

    def __init__(self, broker: OwnBroker) -> None:
        self.broker = broker
        self._proposed: dict[Partition, IsrChange] = {}
        self._has_proposed = trio.Event()

    async def run(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        """Check the followers of all partitions every half of replica.lag.time.max.ms, until cancelled."""
        while True:
            # Kafka checks as often, so a silent follower leaves the ISR after 1 to 1.5 times `lag_ms_max`.
            await trio.sleep(self.broker.lag_ms_max / 2000)
            for few in portions(partitions()):
                for partition in few:
                    self.check(partition)
                await trio.lowlevel.checkpoint()

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
        # A fetch that was sent before a restart must not bring the broker into an ISR: it may have lost what it had
        # fetched.
        if NO_BROKER_EPOCH != broker_epoch < self.broker.registered.get(broker_id, NO_BROKER_EPOCH):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return state

    def note_fetch(
        self, partition: Partition, broker_id: int, broker_epoch: int, offset: int, log_start_offset: int
    ) -> None:
        """Record a follower's fetch at `offset`, which acknowledges all records below. The follower may join the
        ISR."""
        log, leading, own = partition.log, partition.leading, self.broker
        state = None if leading is None else leading.followers.get(broker_id)
        if log is None or leading is None or state is None:
            return
        before = state.log_end_offset, state.log_start_offset
        state.note_fetch(offset, log_start_offset, log.state.log_end_offset, broker_epoch, own.now_ms)
        # Before `refresh`: a follower that is about to join limits the high watermark already (`Leading.maximal_isr`).
        if broker_id not in leading.isr:
            self._propose(partition, leading.grown(broker_id, partition.high_watermark, own.active, own.broker_epoch))
        # A follower that is level asks again and again. Only progress is worth the comparison of all followers.
        if before != (offset, log_start_offset):
            partition.refresh()
            if before[1] != log_start_offset:
                partition.wake()

    # ---- changes of the ISR

    def check(self, partition: Partition) -> None:
        """Propose to remove the followers that have not been caught up for `lag_ms_max`."""
        log, leading, own = partition.log, partition.leading, self.broker
        if log is None or leading is None or not leading.followers:
            return
        partition.refresh()
        end = log.state.log_end_offset
        self._propose(partition, leading.shrunk(end, own.now_ms, own.lag_ms_max, own.broker_epoch))

    def settle(self, partition: Partition, change: IsrChange, answer: IsrAnswer) -> bool:
        """Apply the controller's answer to a change.

        Return whether the change must be sent again. It is proposed again then.
        """
        leading = partition.leading
        if leading is None:
            return False
        # Newer metadata may have ended the change while its answer was on the way; its effect was counted then.
        before, was_pending = leading.isr, leading.pending is change
        again = leading.settle(change, answer)
        if was_pending and leading.pending is None and answer.error is ErrorCode.NONE:
            self.broker.count_isr_change(before, leading.isr)
        self.broker.isr_refusals += answer.error is not ErrorCode.NONE
        if again:
            self._propose(partition, change)
        partition.refresh()
        partition.note_change()
        return again

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
            # A leader epoch may have ended, and a proposal may have been replaced, since they were noted.
            pending = {
                partition: change
                for partition, change in taken.items()
                if partition.leading is not None and partition.leading.pending is change
            }
            if pending:
                return pending
