"""Random programs of a member: each record comes from a partition that it owns, and committed offsets only grow.

The programs find bugs that are planted in the consumer. MODEL_PROGRAMS in the environment asks for more of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

import pytest

from pykbroker.core.consumer.commits import consumed
from pykbroker.core.consumer.errors import UnreadableRecords
from pykbroker.core.consumer.fetch_call import FetchSettings
from pykbroker.core.consumer.fetched import CompletedFetch
from pykbroker.core.consumer.fetching import ConsumerFetches
from pykbroker.core.consumer.offset_reset import EARLIEST
from pykbroker.core.consumer.partition_state import AssignedPartition
from pykbroker.core.consumer.position import CommittedOffset, FetchPosition, PartitionLeader
from pykbroker.core.consumer.records import ConsumerRecord
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.consumer.unread import UnreadRecords
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.core.consumer.fetch_broker import VERSION, FetchBroker, Log, topic_id
from wire.records.batch import Batch, batches

PROGRAMS, STEPS, PROGRAMS_OF_BUGS = int(os.environ.get("MODEL_PROGRAMS", 30)), 60, 10
NODE = 7
LEADER = PartitionLeader(NODE, 3)
PLACES = [TopicPartition("topic", index) for index in range(3)]


@dataclass
class Program:
    """A member of a group, its calls in the order of a face, and what the group knows.

    `next` has the offset of the next record of each owned partition, `committed` the group's offsets, and `damaged` the
    base offset of the damaged batch of each response that was asked for since the last seek of its partition.
    """

    dice: Random
    broker: FetchBroker = field(default_factory=FetchBroker)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    next: dict[TopicPartition, int] = field(default_factory=dict)
    damaged: list[tuple[TopicPartition, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now_ms, self.damage = 0.0, self.dice.choice((0.1, 0.5))
        self.subscription = ConsumerSubscription(EARLIEST)
        self.subscription.subscribe(["topic"])
        self.unread = UnreadRecords(self.subscription)
        self.fetches = ConsumerFetches(self.subscription, self.unread, FetchSettings(partition_bytes_max=200))
        for place in PLACES:
            log = self.broker.logs[place] = Log()
            for _ in range(30):
                log.append(self.dice.randint(1, 4))
        self.rebalance()

    def run(self) -> None:
        """Do random steps, and read on at the end."""
        steps = (self.get_one, self.get_one, self.get_many, self.rebalance, self.seek, self.commit, self.fetch)
        for _ in range(STEPS):
            self.dice.choice(steps)()
        self.commit()

    def fetch(self) -> None:
        """Send what is due, and receive the responses, of which some are damaged."""
        plan = self.fetches.due(topic_id, lambda _place, node: node == NODE, lambda _node: True, self.now_ms)
        for call in plan.calls:
            self.fetches.sent(call)
            response = self.broker.fetch(call.request(VERSION))
            for topic in response.responses:
                for data in topic.partitions:
                    if data.records and self.dice.random() < self.damage:
                        first, damaged = next(batches(data.records)), bytearray(data.records)
                        damaged[first.size - 1] ^= 1
                        data.records = memoryview(damaged)
                        self.damaged.append((TopicPartition("topic", data.partition_index), first.base_offset))
            self.fetches.received(call, response)
            if self.dice.random() < 0.5:
                self.seek(call.partitions)  # the response is stale then

    def get_one(self) -> None:
        """Return the next record of some partitions, as `getone` does."""
        among = self.dice.choice(([], [], [self.dice.choice(PLACES)]))
        found, left = self.unread.choose(1, among)
        if not found:
            self.collect(among)
            taken = self.unread.take(3, among=among)
            self.unread.iterate(taken, [each for part in taken.columns for each in part.records()])
            found, left = self.unread.choose(1, among)
        self.unread.iteration = left
        self.note(found)

    def get_many(self) -> None:
        """Return some records, as `getmany` does."""
        limit = self.dice.randint(1, 9)
        found, left = self.unread.choose(limit)
        if found:
            self.unread.iteration = left
        else:
            self.collect([])
            taken = self.unread.take(limit)
            found = [each for part in taken.columns for each in part.records()]
            self.unread.parts = taken.left
        self.note(found)

    def collect(self, among: list[TopicPartition]) -> None:
        """Poll. A poll is also when the group takes partitions away."""
        self.fetch()
        if self.dice.random() < 0.15:
            self.rebalance()
        if not self.unread.has_parts(among):
            self.now_ms += 100
            try:
                self.fetches.buffer.collect(self.dice.randint(1, 9), self.now_ms, among=among)
            except UnreadableRecords as error:
                place, base = error.partition, self.base_offset(error.partition, error.offset)
                assert self.damaged.count((place, base)) > 1, f"{place}: the batch at {base} was not fetched once more"

    def base_offset(self, place: TopicPartition, offset: int) -> int:
        """Return the base offset of the batch with a record."""
        found = map(Batch.read, self.broker.logs[place].batches)
        return next(each.base_offset for each in found if each.last_offset >= offset)

    def note(self, records: list[ConsumerRecord]) -> None:
        """Check records that a call returns."""
        for record in records:
            place = TopicPartition(record.topic, record.partition)
            assert place in self.next, f"{place} is not owned"
            assert record.offset == self.next[place], f"{record.offset} of {place}, though {self.next[place]} is next"
            self.next[place] += 1

    def commit(self) -> None:
        """Commit what was returned."""
        positions = self.unread.offsets(consumed(self.subscription))
        for place, offset in positions.items():
            assert offset.offset == self.next[place], f"{offset.offset} of {place} is committed, not {self.next[place]}"
            assert offset.offset >= self.committed.get(place, 0), f"the offset of {place} goes back"
            self.committed[place] = offset.offset

    def rebalance(self) -> None:
        """Take partitions away after a commit, and assign others, which another member may have read meanwhile."""
        owned = set(self.next)
        assigned = {place for place in PLACES if self.dice.random() < 0.6}
        self.subscription.mark_revoking(owned - assigned)
        self.commit()
        self.subscription.assign_from_group(sorted(owned & assigned))
        for place in owned - assigned:
            del self.next[place]
            ahead = self.committed.get(place, 0) + self.dice.choice((0, 5))
            self.committed[place] = min(ahead, self.broker.logs[place].end)
        self.subscription.assign_from_group(sorted(assigned))
        found = {place: CommittedOffset(self.committed.get(place, 0)) for place in assigned - owned}
        self.subscription.initialize(dict(found), lambda _place: LEADER)
        self.next |= {place: each.offset for place, each in found.items()}

    def seek(self, among: Iterable[TopicPartition] = PLACES) -> None:
        """Move a partition, often to where it is."""
        if places := sorted(self.next.keys() & set(among)):
            place = self.dice.choice(places)
            self.next[place] += self.dice.choice((0, 0, 3))
            self.next[place] = min(self.next[place], self.broker.logs[place].end)
            self.damaged = [each for each in self.damaged if each[0] != place]
            self.subscription.changed()
            self.subscription[place].move(FetchPosition(self.next[place], -1, LEADER))
            self.subscription.changed()


def run_all(programs: int) -> None:
    """Run programs until one fails."""
    for seed in range(programs):
        Program(Random(seed)).run()


def test_programs_return_what_they_own_and_commit_what_they_returned() -> None:
    run_all(PROGRAMS)


def kept_over_a_rebalance(unread: UnreadRecords, partition: TopicPartition, _era: object) -> bool:
    """Keep unread records while their partition is assigned, whoever has read it meanwhile."""
    return unread._subscription.get(partition) is not None


def is_of_any_era(fetched: CompletedFetch, state: AssignedPartition) -> bool:
    """Take the response to a request from before a seek to the same offset."""
    return True


BUGS: dict[str, tuple[type, str, Callable[..., object]]] = {
    "unread records are kept over a rebalance": (UnreadRecords, "_is_current", kept_over_a_rebalance),
    "a position is committed before its records are returned": (UnreadRecords, "offsets", lambda _, places: places),
    "a response is used after a seek": (CompletedFetch, "is_of_era", is_of_any_era),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_of_the_consumer_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS[bug])
    with pytest.raises(AssertionError):
        run_all(PROGRAMS_OF_BUGS)
