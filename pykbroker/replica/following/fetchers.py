"""The fetchers of a broker, and the assignment of followed partitions to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import trio

from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.quota import ReplicationQuota
from pykbroker.replica.following.fetch_settings import ReplicaFetchSettings
from pykbroker.replica.following.fetcher import ReplicaFetcher
from pykbroker.replica.following.followed import Followed, Truncated
from pykbroker.replica.following.leader_link import LeaderLinks
from pykbroker.replica.partition.own_broker import OwnBroker
from pykbroker.replica.partition.partition import Partition
from wire.sentinels import NO_LEADER

END_S_MAX = 1.0
"""The time limit for the end of a fetch session, for which nothing waits."""


class FetcherSlot(NamedTuple):
    """One of the fetchers for the partitions of a leader."""

    leader: int
    number: int


class Fetchers:
    """The fetchers of this broker. Partitions may be followed before `run` starts; they are fetched from then on.

    A leader without a known address has no fetcher. Its partitions are fetched once `refresh` finds the address.
    """

    def __init__(
        self,
        broker: OwnBroker,
        links: LeaderLinks | None,
        settings: ReplicaFetchSettings,
        quota: ReplicationQuota | None = None,
    ) -> None:
        self._broker, self._links, self._settings = broker, links, settings
        self._quota = quota or ReplicationQuota()
        self._fetchers: dict[FetcherSlot, tuple[ReplicaFetcher, trio.CancelScope]] = {}
        self._followed: dict[Partition, Followed] = {}
        self._waiting: dict[FetcherSlot, dict[Followed, None]] = {}
        self._nursery: trio.Nursery | None = None
        self.newest = 0
        """The number of the newest fetch of any fetcher."""
        self.truncated: Truncated = nothing_copied
        """A function that is awaited after the log of a followed partition was truncated."""

    async def follow(self, partition: Partition, placed: PartitionImage) -> None:
        """Follow a partition in the leader epoch of this metadata. The partition has left its former role."""
        known = self._followed.get(partition)
        if known is not None:
            if (known.leader, known.leader_epoch) == (
                placed.leader,
                placed.leader_epoch,
            ) and known.position is not None:
                return
            await self.unfollow(partition)
        if placed.leader == NO_LEADER or not partition.is_online:
            return
        partition.fetched_epoch = placed.leader_epoch
        followed = Followed(
            partition, (partition.topic_id, partition.index), placed.leader, placed.leader_epoch, self.truncated
        )
        self._followed[partition] = followed
        await followed.start()
        self._assign(followed)

    async def unfollow(self, partition: Partition) -> None:
        """Stop following a partition, and wait until a truncation of its log has ended."""
        followed = self._followed.pop(partition, None)
        if followed is None:
            return
        slot = self._slot(followed)
        self._waiting.get(slot, {}).pop(followed, None)
        if slot in self._fetchers:
            fetcher, scope = self._fetchers[slot]
            fetcher.remove(followed)
            if not len(fetcher):
                scope.cancel()
                del self._fetchers[slot]
        await followed.wait_idle()

    def is_level(self, partition: Partition, since: int) -> bool:
        """Whether a followed partition has all records up to its leader's high watermark.

        The high watermark must come from the answer to a fetch that was sent after fetch number `since`.
        """
        followed = self._followed.get(partition)
        if followed is None or not followed.is_level:
            return False
        found = self._fetchers.get(self._slot(followed))
        return found is not None and found[0].has_answer(followed, since)

    def _numbers(self) -> Iterator[int]:
        while True:
            self.newest += 1
            yield self.newest

    def refresh(self) -> None:
        """Apply this broker's current epoch, and the addresses of brokers."""
        for fetcher, _ in self._fetchers.values():
            fetcher.broker_epoch = self._broker.broker_epoch
        for slot in list(self._waiting):
            for followed in list(self._waiting.pop(slot)):
                self._assign(followed)

    def followed(self) -> list[Followed]:
        """Return the partitions that this broker follows."""
        return list(self._followed.values())

    async def run(self) -> None:
        """Run all fetchers until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                self.refresh()
                await trio.sleep_forever()
            finally:
                self._nursery = None
                self._fetchers.clear()

    def _slot(self, followed: Followed) -> FetcherSlot:
        topic_id, index = followed.key
        # The index spreads the partitions of one topic, and the id spreads topics with one partition.
        return FetcherSlot(followed.leader, (int.from_bytes(topic_id[-4:], "big") + index) % self._settings.slots)

    def _assign(self, followed: Followed) -> None:
        slot = self._slot(followed)
        if slot not in self._fetchers:
            link = self._links.link(slot.leader) if self._links is not None and self._nursery is not None else None
            if link is None or self._nursery is None:
                self._waiting.setdefault(slot, {})[followed] = None
                return
            node_id, scope = self._broker.node_id, trio.CancelScope()
            fetcher = ReplicaFetcher(node_id, slot.leader, link, self._settings, self._quota, self._numbers())
            fetcher.broker_epoch = self._broker.broker_epoch
            self._fetchers[slot] = fetcher, scope
            self._nursery.start_soon(_run, fetcher, scope)
        self._fetchers[slot][0].add(followed)


async def nothing_copied(_: Partition) -> None:
    """Do nothing: no log of this broker is being copied."""


async def _run(fetcher: ReplicaFetcher, scope: trio.CancelScope) -> None:
    try:
        with scope:
            await fetcher.run()
        with trio.move_on_after(END_S_MAX):
            await fetcher.end_session()
    finally:
        fetcher.close()
