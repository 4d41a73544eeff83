"""Tests of a follower's fetch session: what each request names and forgets."""

from __future__ import annotations

from pykbroker.core.replication.fetch_plan import FollowerPlan, Wanted
from pykbroker.core.replication.following import Position
from pykbroker.core.topic_partition import TopicIdPartition
from wire.messages.fetch import FetchRequest, FetchResponse

T0, T1 = (bytes(16), 0), (bytes(16), 1)
Named = tuple[list[int], list[int]]


class Follower:
    """A plan of a follower, whose partitions are at offset 0. Those in `offline` must not be fetched."""

    def __init__(self) -> None:
        self.offline: set[TopicIdPartition] = set()
        self.plan: FollowerPlan[TopicIdPartition] = FollowerPlan(self._wanted, 1000)

    def _wanted(self, key: TopicIdPartition) -> Wanted | None:
        return None if key in self.offline else Wanted(Position(1, 0, -1), 0)

    def fetch(self) -> Named:
        """Return the partitions that a request names and forgets. The leader answers it in session 7."""
        request = FetchRequest()
        self.plan.fill(request)
        self.plan.received(FetchResponse(session_id=7))
        return (
            [one.partition for topic in request.topics for one in topic.partitions],
            [index for topic in request.forgotten_topics_data for index in topic.partitions],
        )


def following(*keys: TopicIdPartition) -> Follower:
    """Return a follower whose session has these partitions."""
    follower = Follower()
    for key in keys:
        follower.plan.add(key, key)
    assert follower.fetch() == ([key[1] for key in keys], [])
    return follower


def test_a_partition_is_named_once_and_then_after_each_change():
    follower = following(T0, T1)
    assert follower.fetch() == ([], [])
    follower.plan.note_change(T1)
    assert follower.fetch() == ([1], [])


def test_a_removed_partition_is_forgotten_once():
    follower = following(T0, T1)
    follower.plan.remove(T1)
    assert follower.fetch() == ([], [1])
    assert follower.fetch() == ([], [])


def test_a_partition_that_is_removed_and_added_again_is_named_and_not_forgotten():
    follower = following(T0, T1)
    follower.plan.remove(T1)
    follower.plan.add(T1, T1)
    assert follower.fetch() == ([1], [])


def test_a_partition_that_is_added_again_but_cannot_be_fetched_is_forgotten():
    """Otherwise the leader would take each fetch of the session for one of this partition, too."""
    follower = following(T0, T1)
    follower.plan.remove(T1)
    follower.plan.add(T1, T1)
    follower.offline.add(T1)
    assert follower.fetch() == ([], [1])
    assert follower.fetch() == ([], [])


def test_a_partition_that_the_session_never_had_is_not_forgotten():
    follower = following(T0)
    follower.plan.add(T1, T1)
    follower.plan.remove(T1)
    assert follower.fetch() == ([], [])


def test_partitions_that_are_forgotten_in_a_request_without_any_are_forgotten_by_the_next_one():
    """A request without partitions is not sent."""
    follower = following(T0)
    follower.offline.add(T0)
    follower.plan.note_change(T0)
    follower.plan.fill(FetchRequest())
    assert not len(follower.plan)
    follower.plan.add(T1, T1)
    assert follower.fetch() == ([1], [0])
    assert follower.fetch() == ([], [])


def test_a_new_session_names_all_partitions_and_forgets_none():
    follower = following(T0, T1)
    follower.plan.remove(T1)
    follower.plan.failed()
    assert follower.fetch() == ([0], [])
