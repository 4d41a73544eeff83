"""Random programs of members of a group against this broker and against three nodes of Apache Kafka.

Each record comes from a partition that its member owns, in order and from the committed offset on. Committed offsets
only grow. GROUP_PROGRAMS in the environment says how many programs run at the same time. They run only if it is set.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from pykbroker.consumer import AsyncConsumer, RebalanceListener
from pykbroker.core.consumer.errors import ConsumerError
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer import AsyncProducer
from tests.interop.target import LOST_SESSION_MS, PARTITIONS, Target
from wire.stored.framing import decode_key, decode_versioned
from wire.stored.group import GROUP_RECORDS
from wire.stored.group_offsets import OffsetCommitKey, OffsetCommitValue

PROGRAMS = int(os.environ.get("GROUP_PROGRAMS", 0))
STEPS, MEMBERS, RECORDS = 60, 2, 1200
WAIT_S = 0.1
"""The longest wait for a record, which a member may lack since it owns nothing."""
pytestmark = [
    pytest.mark.timeout(60 + 10 * PROGRAMS),
    pytest.mark.skipif(not PROGRAMS, reason="set GROUP_PROGRAMS to run programs"),
]


class Group:
    """A group, whose members run one program, and what it has done."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target, self.topics = target, [target.topic(), target.topic()]
        self.name = uuid.uuid4().hex
        self.committed: dict[TopicPartition, int] = {}
        """The offsets of the commits that have returned."""
        self.returned = self.rebalances = self.refused = 0
        protocol = ({"group_protocol": "consumer"}, *map(classic, ("range", "cooperative-sticky")))[seed % 3]
        self.settings: dict[str, Any] = {"group_id": self.name, "enable_auto_commit": seed % 2 == 0} | protocol
        self.members = [Member(self, Random(2 * seed + number)) for number in range(MEMBERS)]

    async def run(self) -> None:
        """Run all members, and read what they have committed."""
        async with AsyncProducer(bootstrap_servers=self.target.servers) as producer:
            for topic in self.topics:
                for number in range(RECORDS):
                    await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        await asyncio.gather(*(each.run() for each in self.members))

    def note_commit(self, offsets: dict[TopicPartition, int]) -> None:
        """Note that a commit of these offsets has returned."""
        for place, offset in offsets.items():
            self.committed[place] = max(offset, self.committed.get(place, 0))


def classic(assignor: str) -> dict[str, Any]:
    """Return the settings of a member of the classic protocol."""
    return {
        "partition_assignment_strategy": assignor,
        "heartbeat_interval_ms": 100,
        "session_timeout_ms": LOST_SESSION_MS,
    }


class Member(RebalanceListener):
    """A member that does random steps. `next` has the offset of the next record of each owned partition."""

    def __init__(self, group: Group, dice: Random) -> None:
        self._group, self._dice, self._topics = group, dice, 1
        self.next: dict[TopicPartition, int | None] = {}
        self._least: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Do the steps, then commit and leave."""
        group = self._group
        settings: dict[str, Any] = {
            "bootstrap_servers": group.target.servers,
            "auto_offset_reset": "earliest",
            "max_poll_records": 7,
        }
        async with AsyncConsumer(fetch_max_wait_ms=50, auto_commit_interval_ms=50, **settings | group.settings) as each:
            self._consumer = each
            self._subscribe()
            while len(self.next) == 0 and not group.returned:
                await self._get_many()
            steps = (self._get_one, self._get_one, self._get_many, self._get_many, self._seek, self._commit)
            for number in range(STEPS):
                await self._dice.choice(steps)()
                if number % 20 == 19:
                    await self._rebalance()
            await self._commit()

    def _subscribe(self) -> None:
        self._consumer.subscribe(self._group.topics[: self._topics], listener=self)

    # ---- the listener

    def on_partitions_assigned(self, partitions: Any) -> None:
        for place in partitions:
            owners = [each for each in self._group.members if each is not self and place in each.next]
            assert not owners, f"{place} has two owners"
            self.next[place], self._least[place] = None, self._group.committed.get(place, 0)
        self._group.rebalances += 1

    async def on_partitions_revoked(self, partitions: Any) -> None:
        try:
            await self._commit()
        finally:  # the time-out of a step may cancel the call, which counts as done
            for place in partitions:
                self.next.pop(place, None)

    # ---- steps

    async def _get_one(self) -> None:
        among = self._dice.choice(([], [], [self._dice.choice(sorted(self.next))] if self.next else []))
        try:
            self._note([await asyncio.wait_for(self._consumer.getone(*among), WAIT_S)])
        except TimeoutError:
            return

    async def _get_many(self) -> None:
        found = await self._consumer.getmany(timeout_ms=WAIT_S * 1000, max_records=self._dice.randint(1, 9))
        for records in found.values():
            self._note(records)

    def _note(self, records: Iterable[Any]) -> None:
        """Check records that a call returns."""
        for record in records:
            place, known = TopicPartition(record.topic, record.partition), self._group.committed
            assert place in self.next, f"a record of {place}, which is of another member"
            due = self.next[place]
            if due is None:
                assert record.offset >= self._least[place], f"{place}: {record.offset}, {known[place]} is committed"
            else:
                assert record.offset == due, f"{place}: {record.offset}, and {due} is next"
            self.next[place] = record.offset + 1
            self._group.returned += 1

    async def _commit(self) -> None:
        offsets = {place: offset for place, offset in self.next.items() if offset is not None}
        try:
            await self._consumer.commit()
        except (ConsumerError, ApiError):  # the group rebalances
            self._group.refused += 1
        else:
            self._group.note_commit(offsets)

    async def _seek(self) -> None:
        """Move a partition to where it is, or ahead."""
        owned = self._consumer.assignment()  # without partitions whose loss the listener has not heard of
        known = {place: offset for place, offset in self.next.items() if offset is not None and place in owned}
        if known:
            place = self._dice.choice(sorted(known))
            self.next[place] = offset = min(known[place] + self._dice.choice((0, 0, 3)), RECORDS // PARTITIONS)
            self._consumer.seek(place, offset)

    async def _rebalance(self) -> None:
        """Let the group rebalance: leave it and come back, or change the subscription."""
        if self._dice.random() < 0.3:
            await self._consumer.unsubscribe()
            assert not self.next, "the listener hears of all partitions before the end"
        else:
            self._topics = 3 - self._topics
        self._subscribe()


async def commits(target: Target, groups: Iterable[str]) -> dict[tuple[str, str, int], list[int]]:
    """Return the offsets that groups have committed to each partition, in their order."""
    found: dict[tuple[str, str, int], list[int]] = {}
    settings: dict[str, Any] = {"auto_offset_reset": "earliest", "exclude_internal_topics": False}
    async with AsyncConsumer(bootstrap_servers=target.servers, fetch_max_wait_ms=50, **settings) as each:
        topic = "__consumer_offsets"
        places = [TopicPartition(topic, index) for index in await each.partitions_for(topic)]
        ends = await each.end_offsets(places)
        each.assign([place for place, end in ends.items() if end])
        for place in each.assignment():
            while await each.position(place) < ends[place]:
                for records in (await each.getmany(place, timeout_ms=1000)).values():
                    for record in records:
                        key = decode_key(GROUP_RECORDS, record.key or b"")
                        if isinstance(key, OffsetCommitKey) and key.group in groups and record.value is not None:
                            value = decode_versioned(OffsetCommitValue, record.value)
                            found.setdefault((key.group, key.topic, key.partition), []).append(value.offset)
    return found


def test_programs_return_what_they_own_and_commit_what_they_returned(target: Target) -> None:
    async def main() -> None:
        groups = [Group(target, seed) for seed in range(PROGRAMS)]
        await asyncio.gather(*(each.run() for each in groups))
        for place, offsets in (await commits(target, {each.name for each in groups})).items():
            assert offsets == sorted(offsets), f"the offset of {place} goes back"
        for each in groups:
            assert each.returned
            assert each.committed

    asyncio.run(main())
