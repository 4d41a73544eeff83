"""Tests of `pykbroker topics` with a fake admin client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker as command
from pykbroker.client.admin import TopicDescription
from pykbroker.core.address import Address
from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode
from wire.messages.describe_configs import DescribeConfigsResourceResult
from wire.messages.metadata import MetadataResponsePartition


class PlayedAdmin:
    """A fake admin client that records its calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    async def topics(self, names: list[str] | None = None) -> list[TopicDescription]:
        part = MetadataResponsePartition(leader_id=1, leader_epoch=4, replica_nodes=[1, 2], isr_nodes=[1])
        return [TopicDescription("orders", False, [part]), TopicDescription("a", False, [part, part])]

    async def configs(self, resource_type: int, name: str) -> list[DescribeConfigsResourceResult]:
        own = {"cleanup.policy": "compact", "retention.ms": "5"} if name == "a" else {}
        described = [DescribeConfigsResourceResult(name=key, value=own[key], config_source=1) for key in own]
        return [*described, DescribeConfigsResourceResult(name="segment.ms", value="1", config_source=5)]

    async def create_topic(self, *args: Any) -> None:
        self.asked.append(args)

    async def delete_topic(self, name: str) -> None:
        if name.startswith("no"):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' (UNKNOWN_TOPIC_OR_PARTITION)")
        self.asked.append((name,))


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> PlayedAdmin:
    played = PlayedAdmin()

    def ask(bootstrap: Address, work: Callable[[PlayedAdmin], Awaitable[None]]) -> None:
        assert bootstrap == Address("127.0.0.1", 9092)
        trio.run(work, played)

    monkeypatch.setattr("pykbroker.cli.topics.ask", ask)
    return played


def run(*words: str) -> Result:
    result = CliRunner().invoke(command, ["topics", *words])
    assert result.exit_code == 0, result.output
    return result


def test_topics_are_listed_in_columns(admin: PlayedAdmin) -> None:
    assert run("list").stdout == ("TOPIC   PARTITIONS  REPLICAS\norders  1           2\na       2           2\n")


def test_describe_prints_partitions_and_the_topics_own_configs(admin: PlayedAdmin) -> None:
    assert run("describe", "orders", "a").stdout == (
        "orders\n"
        "PARTITION  LEADER  EPOCH  REPLICAS  ISR\n"
        "0          1       4      1,2       1\n"
        "a cleanup.policy=compact retention.ms=5\n"
        "PARTITION  LEADER  EPOCH  REPLICAS  ISR\n"
        "0          1       4      1,2       1\n"
        "0          1       4      1,2       1\n"
    )


def test_topics_are_created_and_deleted(admin: PlayedAdmin) -> None:
    run("create", "a", "--partitions", "3", "--set", "retention.ms=5")
    run("create", "b")
    run("delete", "a", "b")
    assert admin.asked == [("a", 3, -1, {"retention.ms": "5"}), ("b", -1, -1, {}), ("a",), ("b",)]


def test_a_topic_that_cannot_be_deleted_is_named_and_the_others_are_deleted(admin: PlayedAdmin) -> None:
    result = CliRunner().invoke(command, ["topics", "delete", "nobody", "a", "nothing"])
    assert (result.exit_code, admin.asked) == (1, [("a",)])
    assert result.stderr == (
        "Error: Topic 'nobody' (UNKNOWN_TOPIC_OR_PARTITION)\nTopic 'nothing' (UNKNOWN_TOPIC_OR_PARTITION)\n"
    )


def test_topics_without_a_running_broker_says_what_to_do() -> None:
    result = CliRunner().invoke(command, ["topics", "list", "--bootstrap", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert "no broker answers on 127.0.0.1:1" in result.stderr
