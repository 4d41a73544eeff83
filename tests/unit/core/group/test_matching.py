"""The search for topics of regular expressions: it goes a share at a time, and no member gets a wrong topic."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import pytest

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.group.consumer import stored
from pykbroker.core.group.consumer.group import StoredMember
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.metadata.image import PartitionImage, TopicImage, TopicsImage
from pykbroker.core.name_pattern import SHARE_STEPS_MAX, NamePattern, compiled
from pykbroker.core.now import Now
from tests.unit.core.group.talk import REBALANCE_MS, Talk
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from wire.messages.delete_groups import DeleteGroupsRequest

SLOW = "(.?){1000}"
"""A pattern that takes more than half a share for a name of 249 bytes, so that each topic needs its own share."""
LONG = [f"{number:03}".ljust(249, "x") for number in range(8)]


def image(names: Iterable[str]) -> TopicsImage:
    known = [
        TopicImage(name, sha256(name.encode()).digest()[:16], {0: PartitionImage((), (), 1, 0, 0, ())})
        for name in names
    ]
    return TopicsImage({one.name: one for one in known}, {one.id: one for one in known})


class Room(Talk):
    """The group `g` with members by name. Each member reports the partitions that it was last assigned."""

    def __init__(self, names: Iterable[str], **fields: Any) -> None:
        self.topics = image(names)
        self.epochs: dict[str, int] = {}
        self.has: dict[str, list[str]] = {}
        super().__init__(**fields)

    def new_machine(self) -> Any:
        machine = super().new_machine()
        machine._shard.topics = lambda: self.topics
        return machine

    def request(self, member: str, regex: str | None) -> ConsumerGroupHeartbeatRequest:
        epoch = self.epochs.get(member, 0)
        owned = [TopicPartitions(self.topics.by_name[name].id, [0]) for name in self.has.get(member, ())]
        return ConsumerGroupHeartbeatRequest(
            "g",
            member,
            epoch,
            rebalance_timeout_ms=-1 if epoch else REBALANCE_MS,
            subscribed_topic_names=None if epoch else [],
            subscribed_topic_regex=regex,
            topic_partitions=owned,
        )

    def beat(self, member: str, regex: str | None = None) -> Any:  # type: ignore[override]
        response = self.ask(self.request(member, regex), 1)
        self.epochs[member] = response.member_epoch
        if response.assignment is not None:
            by_id = {one.id: one.name for one in self.topics.by_id.values()}
            self.has[member] = sorted(by_id[one.topic_id] for one in response.assignment.topic_partitions)
        return response

    def settle(self, *members: str) -> None:
        for _ in range(4):
            for member in members:
                self.beat(member)

    @property
    def searches(self) -> Any:
        return self.machine._shard.searches


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the steps of each share that was matched."""
    taken: list[int] = []
    matching = NamePattern.matching

    def counted(pattern: NamePattern, names: list[str]) -> list[str]:
        taken.append(sum(map(pattern.steps, names)))
        return matching(pattern, names)

    monkeypatch.setattr(NamePattern, "matching", counted)
    return taken


def test_the_first_heartbeat_assigns_the_matches_of_a_cheap_pattern(steps: list[int]) -> None:
    room = Room([*(f"orders-{number}" for number in range(1000)), *(f"other-{number}" for number in range(1000))])
    room.beat("a", "orders-[0-9]+")
    assert len(room.has["a"]) == 1000
    assert len(steps) == 1
    assert room.machine.deadline_ms <= room.now_ms, "what is found is dropped if the group was not stored"
    room.wait(0)
    assert room.machine.deadline_ms > room.now_ms


def test_a_step_matches_one_share_at_most(steps: list[int]) -> None:
    room = Room(LONG)
    room.beat("a", SLOW)
    assert (len(steps), room.has["a"]) == (1, [])
    for done in range(2, len(LONG) + 1):
        room._do(room.machine.tick(Now(room.now_ms, room.wall_ms)))
        assert len(steps) == done
    assert max(steps) <= SHARE_STEPS_MAX
    epoch = room.epochs["a"]
    assert room.beat("a").member_epoch == epoch + 1
    assert room.has["a"] == LONG
    room.settle("a")
    assert (len(steps), room.epochs["a"]) == (len(LONG), epoch + 1), "nothing is matched twice"


def test_the_search_for_a_new_members_pattern_takes_no_partitions_from_others(steps: list[int]) -> None:
    room = Room(LONG)
    room.beat("a", ".*")
    room.settle("a")
    assert room.has["a"] == LONG
    room.beat("b", SLOW)
    room.settle("a", "b")
    room.wait(0)
    room.settle("a", "b")
    assert sorted(room.has["a"] + room.has["b"]) == LONG
    assert len(room.has["a"]) == len(room.has["b"])
    assert max(steps) <= SHARE_STEPS_MAX


def test_a_search_restarts_when_the_topics_change() -> None:
    room = Room(LONG[:4])
    room.beat("a", SLOW)
    room.topics = image(LONG[2:])
    room.beat("a")
    room.wait(0)
    room.settle("a")
    assert room.has["a"] == LONG[2:]


def test_stored_matches_stay_assigned_during_a_search() -> None:
    room = Room(LONG[:4])
    room.beat("a", SLOW)
    room.wait(0)
    room.settle("a")
    room.topics = image(LONG)
    room.beat("a")
    assert room.has["a"] == LONG[:4]
    room.wait(0)
    room.settle("a")
    assert room.has["a"] == LONG


def test_one_step_searches_for_many_patterns(steps: list[int]) -> None:
    room = Room([f"t{number}" for number in range(10)])
    for number in range(10):
        room.beat(f"m{number}", f"t{number}")
    del steps[:]
    room.topics = image([f"t{number}" for number in range(11)])
    room.beat("m0")
    assert len(steps) == 10
    room.wait(0)
    for number in range(10, 100):
        room.beat(f"m{number}", f"{'x' * 400}|t{number}")
        room.wait(0)
    del steps[:]
    room.topics = image([f"t{number}" for number in range(12)])
    room.beat("m0")
    assert 0 < len(steps) < 20, "it takes time to compile them, too"
    room.wait(0)
    assert len(steps) == 100


def test_the_search_for_an_unsubscribed_pattern_stops() -> None:
    room = Room(LONG)
    room.beat("a", SLOW)
    room.beat("a", "0.*")
    room.wait(0)
    room.settle("a")
    assert room.has["a"] == LONG
    assert list(room.searches["g"].found) == ["0.*"]
    room.beat("a", "")
    assert room.searches == {}


def test_the_search_of_a_deleted_group_stops() -> None:
    room = Room(LONG)
    room.beat("a", SLOW)
    room.ask(ConsumerGroupHeartbeatRequest("g", "a", -1), 1)
    assert room.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code == ErrorCode.NONE
    assert room.searches == {}
    room.wait(0)


def test_the_search_of_a_group_that_the_log_refused_is_dropped() -> None:
    room = Room(LONG)
    asked = ClientRequest(room.request("a", SLOW), 1, "c", "/h")
    room.machine.handle(asked, object(), Now(room.now_ms, room.wall_ms))
    assert list(room.searches) == ["g"]
    room.wait(0)
    assert room.searches == {}


def test_a_stored_pattern_that_does_not_compile_here_keeps_its_topics() -> None:
    room = Room(["t", "u"])
    room.beat("a", "t")
    room.settle("a")
    member = next(
        record
        for record in room.log
        if isinstance(record, CoordinatorRecord) and isinstance(record.value, StoredMember)
    )
    value = member.value
    assert isinstance(value, StoredMember)
    value.subscribed_topic_regex = "t{1,2}{1000}"
    kept = [stored.member("g", "a", value), stored.regex("g", "t{1,2}{1000}", ["t"], 0, 0)]
    room._replay(kept)
    room.topics = image(["t", "u", "v"])
    room.settle("a")
    room.wait(0)
    room.settle("a")
    assert room.has["a"] == ["t"]
    assert compiled("t").matching(["t"]) == ["t"]
