"""Tests of the limits that configs set for groups, with values below, at and above each limit."""

from __future__ import annotations

import pytest

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.group.settings import MS_OF_MINUTE, GroupSettings
from tests.unit.core.group.harness import GroupHarness
from tests.unit.core.group.test_consumer import CONSUMER_SESSION_MS, ConsumerGroupHarness
from wire.error_codes import ErrorCode


def settings(**texts: str) -> GroupSettings:
    """Return the group settings of a broker with these configs; "_" in names stands for "."."""
    given = {"group.initial.rebalance.delay.ms": "0", **{name.replace("_", "."): text for name, text in texts.items()}}
    return GroupSettings.of(BrokerConfig.from_mapping(given))


@pytest.mark.parametrize(
    ("session_ms", "code"),
    [
        (6999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (7000, ErrorCode.MEMBER_ID_REQUIRED),
        (8000, ErrorCode.MEMBER_ID_REQUIRED),
        (8001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_the_session_timeouts_of_classic_members_are_limited(session_ms: int, code: ErrorCode) -> None:
    harness = GroupHarness(settings(group_min_session_timeout_ms="7000", group_max_session_timeout_ms="8000"))
    answer = harness.join(session_ms=session_ms)
    assert (answer if isinstance(answer, ErrorCode) else answer.error_code) == code


def test_the_size_of_a_classic_group_is_limited() -> None:
    harness = GroupHarness(settings(group_max_size="3"))
    harness.stable(3)
    assert harness.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    harness = GroupHarness(settings(group_max_size="3"))
    harness.stable(2)
    assert harness.join(harness.new_id()) is None


def test_the_size_of_a_consumer_group_is_limited() -> None:
    harness = ConsumerGroupHarness(settings=settings(group_consumer_max_size="2"))
    for name in ("a", "b"):
        assert harness.enter(name).error_code == 0
    assert harness.enter("c") == ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(("size", "code"), [(9, 0), (10, 0), (11, ErrorCode.OFFSET_METADATA_TOO_LARGE)])
def test_the_size_of_offset_metadata_is_limited(size: int, code: int) -> None:
    assert GroupHarness(settings(offset_metadata_max_bytes="10")).commit(1, metadata="x" * size) == code


def test_offsets_expire_after_the_retention_minutes() -> None:
    harness = GroupHarness(settings(offsets_retention_minutes="2", offsets_retention_check_interval_ms="1"))
    harness.commit(1)
    harness.wait(2 * MS_OF_MINUTE - 1)
    assert harness.state() == "Empty"
    harness.wait(1)
    assert harness.state() == "Dead"


def beats(own: dict[str, str], **texts: str) -> tuple[int, int]:
    """Return the heartbeat interval and the session timeout (ms) of a member of a group with these configs."""
    harness = ConsumerGroupHarness(settings=settings(**texts))
    harness.machine._shard.configs_of = lambda group: own if group == "g" else {}
    interval_ms = harness.enter("a").heartbeat_interval_ms
    last = harness.now_ms
    while harness.described().members:
        harness.wait(500)
    return interval_ms, int(harness.now_ms - last)


SESSION, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


@pytest.mark.parametrize(
    ("own", "described"),
    [
        ({}, (5000, CONSUMER_SESSION_MS)),
        ({SESSION: "50000"}, (5000, 50_000)),
        ({BEAT: "6000"}, (6000, CONSUMER_SESSION_MS)),
        ({SESSION: "44999", BEAT: "4999"}, (5000, 45_000)),
        ({SESSION: "45000", BEAT: "5000"}, (5000, 45_000)),
        ({SESSION: "60000", BEAT: "15000"}, (15_000, 60_000)),
        ({SESSION: "60001", BEAT: "15001"}, (15_000, 60_000)),
        ({SESSION: "soon", BEAT: "-1"}, (5000, 45_000)),
        ({"share.session.timeout.ms": "50000"}, (5000, 45_000)),
    ],
)
def test_group_configs_are_clamped_to_the_limits_of_the_broker(own: dict[str, str], described: tuple[int, int]) -> None:
    assert beats(own) == described


def test_the_broker_configs_apply_to_a_group_without_configs() -> None:
    given = {"group_consumer_session_timeout_ms": "46000", "group_consumer_heartbeat_interval_ms": "7000"}
    assert beats({}, **given) == (7000, 46_000)
    assert beats(
        {SESSION: "1000", BEAT: "100"},
        **given,
        group_consumer_min_session_timeout_ms="2000",
        group_consumer_min_heartbeat_interval_ms="300",
    ) == (300, 2000)


def test_a_changed_config_applies_from_the_next_heartbeat_on() -> None:
    harness, own = ConsumerGroupHarness(), dict[str, str]()
    harness.machine._shard.configs_of = lambda group: own
    harness.enter("a")
    own[SESSION] = "60000"
    harness.wait(CONSUMER_SESSION_MS - 1)
    assert harness.say("a").error_code == 0
    harness.wait(59_999)
    assert len(harness.described().members) == 1
    harness.wait(1)
    assert harness.described().members == []


@pytest.mark.parametrize(
    ("configured", "first"),
    [
        ("range", "range"),
        ("range,uniform", "range"),
        ("uniform,range", "uniform"),
        ("org.apache.kafka.coordinator.group.assignor.RangeAssignor", "range"),
    ],
)
def test_the_first_configured_assignor_is_the_default(configured: str, first: str) -> None:
    harness = ConsumerGroupHarness(settings=settings(group_consumer_assignors=configured))
    harness.enter("a")
    assert harness.described().assignor_name == first


def test_an_assignor_that_is_not_configured_is_refused() -> None:
    harness = ConsumerGroupHarness(settings=settings(group_consumer_assignors="range"))
    assert harness.enter("a", server_assignor="uniform") == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert harness.enter("a", server_assignor="range").error_code == 0


def test_members_of_an_assignor_that_was_removed_use_the_default() -> None:
    harness = ConsumerGroupHarness()
    harness.enter("a", server_assignor="uniform")
    harness.settings = settings(group_consumer_assignors="range")
    later = harness.restarted()
    later.enter("b")
    assert later.described().assignor_name == "range"
    assert later.described().assignment_epoch == 3


def test_configs_of_another_group_do_not_apply() -> None:
    harness = ConsumerGroupHarness()
    harness.machine._shard.configs_of = lambda group: {BEAT: "9000"} if group == "other" else {}
    assert harness.enter("a").heartbeat_interval_ms == 5000
