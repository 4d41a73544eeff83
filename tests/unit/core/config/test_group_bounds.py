"""Tests of the limits of group configs, with values at, below and above each limit, for the broker and for a group."""

from __future__ import annotations

import pytest

from pykbroker.core.config.check import check_configs
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.group_bounds import BOUNDS
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode

BROKER = BrokerConfig.from_mapping({})
LOWS = [(config, low) for config, (low, _) in BOUNDS.items() if low]
HIGHS = [(config, high) for config, (_, high) in BOUNDS.items() if high]


def refusal(config: str, value: int) -> str | None:
    """Return the error message for a group with this config."""
    try:
        check_configs((ConfigResource.GROUP, "g"), {config: str(value)}, BROKER)
    except ApiError as error:
        assert error.code == ErrorCode.INVALID_CONFIG
        return error.message
    return None


def number(name: str) -> int:
    value = BROKER.get(name)
    assert isinstance(value, int)
    return value


def start(**texts: str) -> str | None:
    """Return the error that prevents the start of a broker with these configs; "_" in names stands for "."."""
    try:
        BrokerConfig.from_mapping({name.replace("_", "."): text for name, text in texts.items()})
    except ApiError as error:
        return error.message
    return None


@pytest.mark.parametrize(("config", "low"), LOWS)
def test_a_group_config_below_its_minimum_is_refused(config: str, low: str) -> None:
    assert refusal(config, number(low)) is refusal(config, number(low) + 1) is None
    message = refusal(config, number(low) - 1)
    assert message is not None
    assert "must be greater than or equal to" in message or "Value must be at least" in message


@pytest.mark.parametrize(("config", "high"), HIGHS)
def test_a_group_config_above_its_maximum_is_refused(config: str, high: str) -> None:
    assert refusal(config, number(high) - 1) is refusal(config, number(high)) is None
    assert refusal(config, number(high) + 1) == f"{config} must be less than or equal to {high}"


def test_the_session_timeout_of_a_group_must_exceed_its_heartbeat_interval() -> None:
    broker = BrokerConfig.from_mapping({"group.consumer.min.session.timeout.ms": "5000"})
    key, session = (ConfigResource.GROUP, "g"), "consumer.session.timeout.ms"
    check_configs(key, {session: "5001"}, broker)
    with pytest.raises(ApiError, match="session.timeout.ms must be greater than consumer.heartbeat.interval.ms"):
        check_configs(key, {session: "5000"}, broker)


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
@pytest.mark.parametrize(
    ("what", "low", "high"),
    [
        ("heartbeat.interval.ms", 5000, 15_000),
        ("session.timeout.ms", 45_000, 60_000),
        ("assignment.interval.ms", 0, 15_000),
    ],
)
def test_the_broker_config_must_be_within_the_limits_for_groups(kind: str, what: str, low: int, high: int) -> None:
    name, least, most = (f"group.{kind}.{bound}{what}" for bound in ("", "min.", "max."))
    for good in (low, high):
        assert start(**{name: str(good)}) is None
    assert start(**{name: str(high + 1)}) == f"{name} must be less than or equal to {most}"
    assert start(**{least: str(low + 1), name: str(low)}) == f"{name} must be greater than or equal to {least}"
    assert start(**{least: str(high), most: str(high), name: str(high)}) is None
    assert start(**{least: str(high + 1)}) == f"{most} must be greater than or equal to {least}"


def test_the_session_timeouts_of_the_broker_must_exceed_its_heartbeat_intervals() -> None:
    ranges = {"group_consumer_min_session_timeout_ms": "1"}
    assert start(**ranges, group_consumer_session_timeout_ms="5001") is None
    assert start(**ranges, group_consumer_session_timeout_ms="5000") == (
        "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms"
    )


def test_share_groups_have_exactly_one_assignor_and_a_session_slot_for_each_member() -> None:
    assert start(group_share_assignors="mine") is None
    assert start(group_share_assignors="simple,mine") == (
        "group.share.assignors must contain exactly one assignor, but found 2"
    )
    assert start(group_share_max_share_sessions="200") is None
    assert start(group_share_max_share_sessions="199") == (
        "group.share.max.share.sessions must be greater than or equal to group.share.max.size"
    )


def test_the_classic_protocol_cannot_be_disabled() -> None:
    assert start(group_coordinator_rebalance_protocols="classic") is None
    message = start(group_coordinator_rebalance_protocols="consumer")
    assert message == "Disabling the 'classic' protocol is not supported."


def test_unknown_assignors_are_refused() -> None:
    assert start(group_consumer_assignors="range") is None
    assert start(group_consumer_assignors="") == (
        "Configuration 'group.consumer.assignors' must not be empty. Valid values include: any non-empty value"
    )
    assert "best" in (start(group_consumer_assignors="range,best") or "")


def test_limits_apply_to_dynamic_changes() -> None:
    name = "group.consumer.assignment.interval.ms"
    key = (ConfigResource.BROKER, "")
    check_configs(key, {name: "15000"}, BROKER)
    with pytest.raises(ApiError, match="less than or equal to group.consumer.max.assignment") as refused:
        check_configs(key, {name: "15001"}, BROKER)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
