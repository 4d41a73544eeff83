"""The limits that configs set for groups: below, at and above each limit."""

from __future__ import annotations

import pytest

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.group.settings import MS_OF_MINUTE, GroupSettings
from tests.unit.core.group.talk import Talk
from tests.unit.core.group.test_consumer import CONSUMER_SESSION_MS, Room
from wire.error_codes import ErrorCode


def settings(**texts: str) -> GroupSettings:
    """Return the settings of a broker with these configs, named with underscores."""
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
def test_session_timeouts_of_classic_members_are_bounded(session_ms: int, code: ErrorCode) -> None:
    talk = Talk(settings(group_min_session_timeout_ms="7000", group_max_session_timeout_ms="8000"))
    answer = talk.join(session_ms=session_ms)
    assert (answer if isinstance(answer, ErrorCode) else answer.error_code) == code


def test_the_size_of_a_classic_group_is_bounded() -> None:
    talk = Talk(settings(group_max_size="3"))
    talk.stable(3)
    assert talk.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    talk = Talk(settings(group_max_size="3"))
    talk.stable(2)
    assert talk.join(talk.new_id()) is None


def test_the_size_of_a_consumer_group_is_bounded() -> None:
    room = Room(settings=settings(group_consumer_max_size="2"))
    for name in ("a", "b"):
        assert room.enter(name).error_code == 0
    assert room.enter("c") == ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(("size", "code"), [(9, 0), (10, 0), (11, ErrorCode.OFFSET_METADATA_TOO_LARGE)])
def test_the_metadata_of_an_offset_is_bounded(size: int, code: int) -> None:
    assert Talk(settings(offset_metadata_max_bytes="10")).commit(1, metadata="x" * size) == code


def test_offsets_expire_after_the_retention_minutes() -> None:
    talk = Talk(settings(offsets_retention_minutes="2", offsets_retention_check_interval_ms="1"))
    talk.commit(1)
    talk.wait(2 * MS_OF_MINUTE - 1)
    assert talk.state() == "Empty"
    talk.wait(1)
    assert talk.state() == "Dead"


def beats(own: dict[str, str], **texts: str) -> tuple[int, int]:
    """Return the heartbeat interval and the session timeout, in ms, of a member of a group with its own configs."""
    room = Room(settings=settings(**texts))
    room.machine._shard.configs_of = lambda group: own if group == "g" else {}
    interval_ms = room.enter("a").heartbeat_interval_ms
    last = room.now_ms
    while room.told().members:
        room.wait(500)
    return interval_ms, int(room.now_ms - last)


SESSION, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


@pytest.mark.parametrize(
    ("own", "told"),
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
def test_a_groups_own_configs_apply_within_the_brokers_bounds(own: dict[str, str], told: tuple[int, int]) -> None:
    assert beats(own) == told


def test_the_brokers_configs_apply_to_a_group_without_its_own() -> None:
    given = {"group_consumer_session_timeout_ms": "46000", "group_consumer_heartbeat_interval_ms": "7000"}
    assert beats({}, **given) == (7000, 46_000)
    assert beats(
        {SESSION: "1000", BEAT: "100"},
        **given,
        group_consumer_min_session_timeout_ms="2000",
        group_consumer_min_heartbeat_interval_ms="300",
    ) == (300, 2000)


def test_a_changed_config_applies_from_the_next_heartbeat_on() -> None:
    room, own = Room(), dict[str, str]()
    room.machine._shard.configs_of = lambda group: own
    room.enter("a")
    own[SESSION] = "60000"
    room.wait(CONSUMER_SESSION_MS - 1)
    assert room.say("a").error_code == 0
    room.wait(59_999)
    assert len(room.told().members) == 1
    room.wait(1)
    assert room.told().members == []


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
    room = Room(settings=settings(group_consumer_assignors=configured))
    room.enter("a")
    assert room.told().assignor_name == first


def test_an_assignor_that_is_not_configured_is_refused() -> None:
    room = Room(settings=settings(group_consumer_assignors="range"))
    assert room.enter("a", server_assignor="uniform") == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert room.enter("a", server_assignor="range").error_code == 0


def test_members_of_a_removed_assignor_use_the_first_one() -> None:
    room = Room()
    room.enter("a", server_assignor="uniform")
    room.settings = settings(group_consumer_assignors="range")
    later = room.restarted()
    later.enter("b")
    assert later.told().assignor_name == "range"
    assert later.told().assignment_epoch == 3


def test_configs_of_another_group_do_not_apply() -> None:
    room = Room()
    room.machine._shard.configs_of = lambda group: {BEAT: "9000"} if group == "other" else {}
    assert room.enter("a").heartbeat_interval_ms == 5000
