"""Tests of the search for topics that match regular expressions, which runs in several steps."""

from __future__ import annotations

from collections.abc import Collection, Iterable
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
from tests.unit.core.group.harness import REBALANCE_MS, GroupHarness
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from wire.messages.delete_groups import DeleteGroupsRequest

SLOW_PATTERN = "(.?){1000}"
"""A pattern so slow that one step of the search matches only one topic name of 249 bytes."""
LONG_NAMES = [f"{number:03}".ljust(249, "x") for number in range(8)]


def image(names: Iterable[str]) -> TopicsImage:
    known = [
        TopicImage(name, sha256(name.encode()).digest()[:16], {0: PartitionImage((), (), 1, 0, 0, ())})
        for name in names
    ]
    return TopicsImage({one.name: one for one in known}, {one.id: one for one in known})


class ConsumerGroupHarness(GroupHarness):
    """The consumer group `g`. Each member reports the partitions that it was last assigned."""

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
        return self.answered(member, self.ask(self.request(member, regex), 1))

    def answered(self, member: str, response: Any) -> Any:
        """Note the epoch and the assignment of a member."""
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
    """Return the cost of each call that matched names."""
    taken: list[int] = []
    matching = NamePattern.matching

    def counted(pattern: NamePattern, names: list[str]) -> list[str]:
        taken.append(sum(map(pattern.steps, names)))
        return matching(pattern, names)

    monkeypatch.setattr(NamePattern, "matching", counted)
    return taken


def test_the_first_heartbeat_assigns_the_matches_of_a_fast_pattern(steps: list[int]) -> None:
    harness = ConsumerGroupHarness(
        [*(f"orders-{number}" for number in range(1000)), *(f"other-{number}" for number in range(1000))]
    )
    harness.beat("a", "orders-[0-9]+")
    assert len(harness.has["a"]) == 1000
    assert len(steps) == 1
    assert harness.machine.deadline_ms <= harness.now_ms, (
        "a timer is due at once, to drop the matches if the group was not stored"
    )
    harness.wait(0)
    assert harness.machine.deadline_ms > harness.now_ms


def test_one_step_matches_a_limited_number_of_topics(steps: list[int]) -> None:
    harness = ConsumerGroupHarness(LONG_NAMES)
    harness.beat("a", SLOW_PATTERN)
    assert (len(steps), harness.has["a"]) == (1, [])
    for done in range(2, len(LONG_NAMES) + 1):
        harness._do(harness.machine.tick(Now(harness.now_ms, harness.wall_ms)))
        assert len(steps) == done
    assert max(steps) <= SHARE_STEPS_MAX
    epoch = harness.epochs["a"]
    assert harness.beat("a").member_epoch == epoch + 1
    assert harness.has["a"] == LONG_NAMES
    harness.settle("a")
    assert (len(steps), harness.epochs["a"]) == (len(LONG_NAMES), epoch + 1), "each topic is matched once"


def test_a_search_for_a_new_members_pattern_revokes_no_partition_of_other_members(steps: list[int]) -> None:
    harness = ConsumerGroupHarness(LONG_NAMES)
    harness.beat("a", ".*")
    harness.settle("a")
    assert harness.has["a"] == LONG_NAMES
    harness.beat("b", SLOW_PATTERN)
    harness.settle("a", "b")
    harness.wait(0)
    harness.settle("a", "b")
    assert sorted(harness.has["a"] + harness.has["b"]) == LONG_NAMES
    assert len(harness.has["a"]) == len(harness.has["b"])
    assert max(steps) <= SHARE_STEPS_MAX


def test_a_search_restarts_when_the_topics_change() -> None:
    harness = ConsumerGroupHarness(LONG_NAMES[:4])
    harness.beat("a", SLOW_PATTERN)
    harness.topics = image(LONG_NAMES[2:])
    harness.beat("a")
    harness.wait(0)
    harness.settle("a")
    assert harness.has["a"] == LONG_NAMES[2:]


def test_the_previous_matches_stay_assigned_during_a_search() -> None:
    harness = ConsumerGroupHarness(LONG_NAMES[:4])
    harness.beat("a", SLOW_PATTERN)
    harness.wait(0)
    harness.settle("a")
    harness.topics = image(LONG_NAMES)
    harness.beat("a")
    assert harness.has["a"] == LONG_NAMES[:4]
    harness.wait(0)
    harness.settle("a")
    assert harness.has["a"] == LONG_NAMES


def test_topics_that_no_member_may_describe_are_left_out_until_it_may() -> None:
    harness = ConsumerGroupHarness(["t1", "t2"])
    shown = ["t1", "t3"]

    def beat(regex: str | None = None) -> list[str]:
        request = harness.request("a", regex)
        asked = ClientRequest(request, 1, "c", "/127.0.0.1", lambda names: [name for name in names if name in shown])
        harness.answered("a", harness.told(asked))
        return harness.has["a"]

    assert beat("t.*") == ["t1"]
    harness.topics = image(["t1", "t2", "t3"])
    beat()
    harness.settle("a")  # without a right to ask for, as after a timer: the last member decides
    assert harness.has["a"] == ["t1", "t3"]
    shown.append("t2")
    refresh_ms = harness.machine._shard.settings.group_consumer_regex_refresh_interval_ms
    for elapsed_ms, expected in ((refresh_ms - 1, ["t1", "t3"]), (1, ["t1", "t2", "t3"])):
        while elapsed_ms > 0:
            harness.wait(min(elapsed_ms, 40_000))  # a member must be heard within 45 s
            elapsed_ms -= 40_000
            beat()
        assert beat() == expected


def test_rights_are_asked_for_in_the_same_parts_as_names_are_matched() -> None:
    harness = ConsumerGroupHarness(LONG_NAMES)
    asked = []

    def shows(names: Collection[str]) -> Collection[str]:
        asked.append([*names])
        return names

    harness.told(ClientRequest(harness.request("a", SLOW_PATTERN), 1, "c", "/127.0.0.1", shows))
    for _ in LONG_NAMES:
        harness._do(harness.machine.tick(Now(harness.now_ms, harness.wall_ms)))
    assert asked == [[name] for name in LONG_NAMES]


def test_one_step_matches_several_fast_patterns(steps: list[int]) -> None:
    harness = ConsumerGroupHarness([f"t{number}" for number in range(10)])
    for number in range(10):
        harness.beat(f"m{number}", f"t{number}")
    del steps[:]
    harness.topics = image([f"t{number}" for number in range(11)])
    harness.beat("m0")
    assert len(steps) == 10
    harness.wait(0)
    for number in range(10, 100):
        harness.beat(f"m{number}", f"{'x' * 400}|t{number}")
        harness.wait(0)
    del steps[:]
    harness.topics = image([f"t{number}" for number in range(12)])
    harness.beat("m0")
    assert 0 < len(steps) < 20, "the cost of compiling a pattern counts as well"
    harness.wait(0)
    assert len(steps) == 100


def test_the_search_for_an_unsubscribed_pattern_stops() -> None:
    harness = ConsumerGroupHarness(LONG_NAMES)
    harness.beat("a", SLOW_PATTERN)
    harness.beat("a", "0.*")
    harness.wait(0)
    harness.settle("a")
    assert harness.has["a"] == LONG_NAMES
    assert list(harness.searches["g"].found) == ["0.*"]
    harness.beat("a", "")
    assert harness.searches == {}


def test_the_search_of_a_deleted_group_stops() -> None:
    harness = ConsumerGroupHarness(LONG_NAMES)
    harness.beat("a", SLOW_PATTERN)
    harness.ask(ConsumerGroupHeartbeatRequest("g", "a", -1), 1)
    assert harness.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code == ErrorCode.NONE
    assert harness.searches == {}
    harness.wait(0)


def test_the_matches_of_a_group_are_dropped_if_the_log_refused_the_group() -> None:
    harness = ConsumerGroupHarness(LONG_NAMES)
    asked = ClientRequest(harness.request("a", SLOW_PATTERN), 1, "c", "/h")
    harness.machine.handle(asked, object(), Now(harness.now_ms, harness.wall_ms))
    assert list(harness.searches) == ["g"]
    harness.wait(0)
    assert harness.searches == {}


def test_a_stored_pattern_that_does_not_compile_keeps_its_topics() -> None:
    harness = ConsumerGroupHarness(["t", "u"])
    harness.beat("a", "t")
    harness.settle("a")
    member = next(
        record
        for record in harness.log
        if isinstance(record, CoordinatorRecord) and isinstance(record.value, StoredMember)
    )
    value = member.value
    assert isinstance(value, StoredMember)
    value.subscribed_topic_regex = "t{1,2}{1000}"
    kept = [stored.member("g", "a", value), stored.regex("g", "t{1,2}{1000}", ["t"], 0, 0)]
    harness._replay(kept)
    harness.topics = image(["t", "u", "v"])
    harness.settle("a")
    harness.wait(0)
    harness.settle("a")
    assert harness.has["a"] == ["t"]
    assert compiled("t").matching(["t"]) == ["t"]
