"""The fetch session of one follower, with the partitions that it must look at.

An incremental fetch of a follower costs time only for its due partitions (KIP-227). A partition is due

- if the request names it, if records were appended, or if its high watermark or its ISR has changed;
- while the follower is not in its ISR, which the follower may join with a fetch;
- if the last response had an error for it, or no room for all its records.

The response leaves out all other partitions.

A partition is throttled while the leader's quota is exceeded and the follower is not in the ISR (KIP-73). It stays due,
and responses have none of its records. Its appends do not wake the follower.

A broker fetches a partition in one session only, the last one that named it, so that no append costs time for a session
that its follower has left.
"""

from __future__ import annotations

from math import inf

import trio

from pykbroker.core.fetch.session import FetchSession, PartitionKey, SessionPartition
from pykbroker.core.replication.quota import ReplicationQuota
from pykbroker.replica.partition.partition import Partition


class FollowerSession:
    """The partitions that broker `broker_id` fetches in one session. `due` are those that the next response may have.

    `unlocated` are the requested partitions that this broker does not have. `session` is None until the fetch session
    is open, and for a follower that fetches without one.
    """

    __slots__ = (
        "_event",
        "_partitions",
        "_quota",
        "_wanted",
        "broker_epoch",
        "broker_id",
        "due",
        "fetched_ms",
        "session",
        "unlocated",
    )

    def __init__(self, broker_id: int, broker_epoch: int, quota: ReplicationQuota) -> None:
        self.broker_id, self.broker_epoch, self._quota = broker_id, broker_epoch, quota
        self.session: FetchSession | None = None
        self.fetched_ms = -inf
        self.due: dict[Partition, SessionPartition] = {}
        self.unlocated: dict[PartitionKey, SessionPartition] = {}
        self._partitions: dict[PartitionKey, Partition] = {}
        self._wanted: dict[Partition, SessionPartition] = {}
        self._event = trio.Event()

    def add(self, wanted: SessionPartition, partition: Partition | None, *, takes_over: bool) -> None:
        """Add a requested partition, which is then due, or change what is asked for it.

        The other sessions of the same broker lose the partition if this session `takes_over`.
        """
        known = self._partitions.get(wanted.key)
        # The topic was deleted and created again under the same key, or its replica was moved: another `Partition`.
        if known is not partition and known is not None:
            self.forget(wanted.key)
        if partition is None:
            self.unlocated[wanted.key] = wanted
            return
        self.unlocated.pop(wanted.key, None)
        if known is not partition:
            self._partitions[wanted.key] = partition
            if takes_over:
                for other in partition.followers:
                    other.yield_to(self.broker_id, self.broker_epoch, partition)
            # A new tuple, since an append may iterate over the old one. Sessions that dropped the partition leave it
            # now.
            partition.followers = (*(one for one in partition.followers if partition in one), self)
        self._wanted[partition] = self.due[partition] = wanted

    def forget(self, key: PartitionKey) -> None:
        """Remove a partition that the follower no longer fetches."""
        self.unlocated.pop(key, None)
        partition = self._partitions.get(key)
        if partition is not None:
            self.drop(partition)
            self._leave(partition)

    def drop(self, partition: Partition) -> SessionPartition | None:
        """Remove a partition, and return what was asked for it. The partition forgets this session with a change."""
        self.due.pop(partition, None)
        wanted = self._wanted.pop(partition, None)
        if wanted is not None:
            del self._partitions[wanted.key]
        return wanted

    def yield_to(self, broker_id: int, broker_epoch: int, partition: Partition) -> None:
        """Remove a partition if this is a session of the same broker, which fetches it in another session now."""
        if (broker_id, broker_epoch) == (self.broker_id, self.broker_epoch):
            self.drop(partition)

    def lose(self, partition: Partition) -> None:
        """Note that this broker no longer has a partition. The next response reports that to the follower."""
        wanted = self.drop(partition)
        if wanted is not None:
            self.unlocated[wanted.key] = wanted
            self._event.set()

    def _leave(self, partition: Partition) -> None:
        partition.followers = tuple(one for one in partition.followers if one is not self)

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._wanted

    @property
    def is_empty(self) -> bool:
        """Whether the follower fetches nothing in this session."""
        return not self._wanted and not self.unlocated

    def close(self) -> None:
        """Remove all partitions, in a time that does not depend on their number, and answer a waiting request."""
        # The partitions still name this session. Each of them drops it with its next change (`note_change`).
        self.due, self.unlocated, self._partitions, self._wanted = {}, {}, {}, {}
        self._event.set()

    def register(self, broker_epoch: int) -> None:
        """Make all partitions due if the follower has another broker epoch, with which it may join the ISRs."""
        if broker_epoch != self.broker_epoch:
            self.broker_epoch = broker_epoch
            self.due = dict(self._wanted)

    # ---- changes of partitions

    def note_append(self, partition: Partition) -> None:
        """Wake the follower: the partition has new records, or its leadership has ended."""
        if partition not in self.due:
            self.note_change(partition)
        # A throttled follower would be woken for a response without records, once for each append.
        if not self.is_throttled(partition):
            self._event.set()

    def note_change(self, partition: Partition) -> None:
        """Make a partition due, such as after a change of its high watermark. The follower is not woken."""
        if partition not in self.due:
            wanted = self._wanted.get(partition)
            if wanted is None:  # the session was closed, or another one has taken over the partition
                self._leave(partition)
                return
            leading = partition.leading
            state = None if leading is None else leading.followers.get(self.broker_id)
            # Fetches do not look at a partition that is not due, and yet show that the follower is level. The last of
            # them counts as a fetch of this partition: its follower would seem to lag otherwise.
            if state is not None:
                state.note_session(self.fetched_ms)
            self.due[partition] = wanted

    # ---- the quota

    def is_throttled(self, partition: Partition) -> bool:
        """Whether the follower must wait for records of this partition. A member of the ISR never waits."""
        quota = self._quota
        if not quota.covers(partition.key):
            return False
        leading = partition.leading
        in_sync = leading is None or self.broker_id in leading.isr
        return not in_sync and quota.is_exceeded(partition.broker.now_ms)

    def record_throttled(self, partition: Partition, size: int) -> None:
        """Count records that are sent of this partition, if its traffic is measured, whether or not it is in the
        ISR."""
        if self._quota.covers(partition.key):
            self._quota.record(size, partition.broker.now_ms)

    # ---- waiting

    async def wait(self) -> None:
        """Wait for the first `note_append` since the previous `wait` returned."""
        await self._event.wait()
        self._event = trio.Event()

    def calm(self) -> None:
        """Forget earlier calls of `note_append`: their partitions are about to be read."""
        if self._event.is_set():
            self._event = trio.Event()

    def hurry(self) -> None:
        """Make the waiting request respond with the records that are available now."""
        self._event.set()
