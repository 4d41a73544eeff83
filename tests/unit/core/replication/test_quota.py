"""Tests of the quota of replication: its rate over windows of time, and the replicas that it covers (KIP-73)."""

from __future__ import annotations

import pytest

from pykbroker.core.replication.quota import NO_LIMIT, ReplicationQuota
from pykbroker.core.topic_partition import TopicPartition


def quota(bytes_per_s: int = 1000) -> ReplicationQuota:
    made = ReplicationQuota(windows=3, window_ms=1000)
    made.limit(bytes_per_s)
    return made


def test_traffic_up_to_the_limit_is_not_exceeded_and_more_is():
    one = quota()
    one.record(1000, 0)
    assert not one.is_exceeded(0)
    one.record(1, 10)
    assert one.is_exceeded(10)


def test_the_rate_falls_while_nothing_is_recorded():
    one = quota()
    one.record(2000, 0)
    assert one.is_exceeded(1999)
    assert one.wait_ms(500) == 1500
    assert not one.is_exceeded(2000)
    assert one.wait_ms(2000) == 0


def test_a_burst_is_forgotten_after_all_windows():
    one = quota(1)
    one.record(1_000_000, 0)
    assert one.is_exceeded(2999)
    assert one.wait_ms(0) == 3000
    assert not one.is_exceeded(3000)


def test_steady_traffic_below_the_limit_is_never_exceeded():
    one = quota()
    for now_ms in range(0, 60_000, 100):
        one.record(90, now_ms)
        assert not one.is_exceeded(now_ms)


def test_steady_traffic_above_the_limit_is_exceeded_from_the_first_window_on():
    one = quota()
    for now_ms in range(0, 10_000, 100):
        one.record(120, now_ms)
        assert one.is_exceeded(now_ms) is (now_ms >= 800)


def test_without_a_limit_nothing_is_exceeded():
    one = quota(NO_LIMIT)
    one.record(1 << 50, 0)
    assert not one.is_exceeded(0)


def test_a_limit_of_zero_stops_all_traffic_after_the_first_byte_for_all_windows():
    one = quota(0)
    assert not one.is_exceeded(0)
    one.record(1, 0)
    assert one.is_exceeded(2999)
    assert one.wait_ms(1000) == 2000


@pytest.mark.parametrize(
    ("replicas", "covered"),
    [((), []), (("*",), [0, 1, 2]), (("0:1", "1:2", "2:1"), [0, 2]), (("0:2",), [])],
    ids=["none", "all", "some of this broker", "of another broker"],
)
def test_the_list_of_throttled_replicas_names_those_of_this_broker(replicas: tuple[str, ...], covered: list[int]):
    one = quota()
    one.throttle("t", replicas, 1)
    assert [index for index in range(3) if one.covers(TopicPartition("t", index))] == covered
    assert not one.covers(TopicPartition("other", 0))


def test_a_new_list_replaces_the_former_one():
    one = quota()
    one.throttle("t", ("*",), 1)
    one.throttle("t", ("1:1",), 1)
    assert not one.covers(TopicPartition("t", 0))
    one.throttle("t", (), 1)
    assert not one.covers(TopicPartition("t", 1))


def test_only_covered_replicas_are_held_back():
    one = quota()
    one.throttle("t", ("0:1",), 1)
    one.record(5000, 0)
    assert one.holds_back(TopicPartition("t", 0), 1)
    assert not one.holds_back(TopicPartition("t", 1), 1)
