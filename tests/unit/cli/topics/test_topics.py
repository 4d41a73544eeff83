"""Tests of `pykbroker topics` with a fake admin client."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker as command
from pykbroker.client.admin.admin import TopicDescription
from pykbroker.core.address import Address
from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode
from wire.messages.describe_configs import DescribeConfigsResourceResult
from wire.messages.metadata import MetadataResponsePartition


class FakeAdmin:
    """A fake admin client that records its calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    async def topics(self, names: list[str] | None = None) -> list[TopicDescription]:
        part = MetadataResponsePartition(leader_id=1, leader_epoch=4, replica_nodes=[1, 2], isr_nodes=[1])
        found = [TopicDescription("orders", False, [part]), TopicDescription("a", False, [part, part])]
        if names is not None and not set(names) <= {topic.name for topic in found}:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{names[0]}' (UNKNOWN_TOPIC_OR_PARTITION)")
        return [topic for topic in found if names is None or topic.name in names]

    async def configs(self, resource_type: int, name: str) -> list[DescribeConfigsResourceResult]:
        own = {"cleanup.policy": "compact", "retention.ms": "5"} if name == "a" else {}
        described = [DescribeConfigsResourceResult(name=key, value=own[key], config_source=1) for key in own]
        return [*described, DescribeConfigsResourceResult(name="segment.ms", value="1", config_source=5)]

    async def create_topic(self, *args: Any) -> None:
        if (args[0], args[1]) == ("a", 9):
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists. (TOPIC_ALREADY_EXISTS)")
        self.asked.append(args)

    async def create_partitions(self, *args: Any) -> None:
        self.asked.append(args)

    async def delete_topic(self, name: str) -> None:
        if name.startswith("no"):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' (UNKNOWN_TOPIC_OR_PARTITION)")
        self.asked.append((name,))


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    played = FakeAdmin()

    async def converse(bootstrap: Sequence[Address], work: Callable[[FakeAdmin], Awaitable[None]], _: object) -> None:
        assert bootstrap == (Address("127.0.0.1", 9092),)
        await work(played)

    monkeypatch.setattr("pykbroker.cli.ask.converse", converse)
    return played


def run(*words: str) -> Result:
    result = CliRunner().invoke(command, ["topics", *words])
    assert result.exit_code == 0, result.output
    return result


def test_topics_are_listed_in_columns(admin: FakeAdmin) -> None:
    assert run("list").stdout == ("TOPIC   PARTITIONS  REPLICAS\norders  1           2\na       2           2\n")


def test_describe_prints_partitions_and_the_configs_set_on_the_topic(admin: FakeAdmin) -> None:
    assert run("describe", "orders", "a").stdout == (
        "orders\n"
        "PARTITION  LEADER  EPOCH  REPLICAS  ISR\n"
        "0          1       4      1,2       1\n"
        "a cleanup.policy=compact retention.ms=5\n"
        "PARTITION  LEADER  EPOCH  REPLICAS  ISR\n"
        "0          1       4      1,2       1\n"
        "0          1       4      1,2       1\n"
    )


def test_topics_are_listed_as_json(admin: FakeAdmin) -> None:
    assert json.loads(run("list", "--json").stdout) == [
        {"topic": "orders", "partitions": 1, "replicas": 2},
        {"topic": "a", "partitions": 2, "replicas": 2},
    ]


def test_topics_are_described_as_json(admin: FakeAdmin) -> None:
    part = {"partition": 0, "leader": 1, "epoch": 4, "replicas": [1, 2], "isr": [1]}
    assert json.loads(run("describe", "a", "--json").stdout) == [
        {"topic": "a", "configs": {"cleanup.policy": "compact", "retention.ms": "5"}, "partitions": [part, part]}
    ]


def test_existing_topics_are_described_even_if_another_topic_does_not_exist(admin: FakeAdmin) -> None:
    result = CliRunner().invoke(command, ["topics", "describe", "nope", "orders"])
    assert result.exit_code == 1
    assert result.stdout.startswith("orders\nPARTITION")
    assert result.stderr == "Error: Topic 'nope' (UNKNOWN_TOPIC_OR_PARTITION)\n"


def test_topics_are_created_altered_and_deleted(admin: FakeAdmin) -> None:
    created = run("create", "a:2:retention.ms=7", "--set", "retention.ms=5")
    assert created.stdout == "Created the topic a with 2 partitions.\n"
    assert run("create", "orders").stdout == "Created the topic orders with 1 partition.\n"
    assert run("alter", "a", "--partitions", "5").stdout == "The topic a has 5 partitions now.\n"
    assert run("delete", "a", "b").stdout == "Deleted the topic a.\nDeleted the topic b.\n"
    assert admin.asked == [("a", 2, -1, {"retention.ms": "5"}), ("orders", -1, -1, {}), ("a", 5), ("a",), ("b",)]


def test_a_topic_that_exists_is_refused_unless_that_is_allowed(admin: FakeAdmin) -> None:
    refused = CliRunner().invoke(command, ["topics", "create", "a:9"])
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "TOPIC_ALREADY_EXISTS" in refused.stderr
    assert run("create", "a:9", "--if-not-exists").stdout == "The topic a exists already and stays as it is.\n"


def test_two_numbers_of_partitions_contradict_each_other(admin: FakeAdmin) -> None:
    result = CliRunner().invoke(command, ["topics", "create", "a:2", "--partitions", "3"])
    assert (result.exit_code, admin.asked) == (2, [])
    assert "a:2 and --partitions 3: give one of them" in result.stderr


def test_a_topic_that_cannot_be_deleted_is_reported_and_the_others_are_deleted(admin: FakeAdmin) -> None:
    result = CliRunner().invoke(command, ["topics", "delete", "nobody", "a", "nothing"])
    assert (result.exit_code, admin.asked) == (1, [("a",)])
    assert result.stderr == (
        "Error: Topic 'nobody' (UNKNOWN_TOPIC_OR_PARTITION)\nTopic 'nothing' (UNKNOWN_TOPIC_OR_PARTITION)\n"
    )


def test_topics_without_a_running_broker_explains_how_to_start_one() -> None:
    result = CliRunner().invoke(command, ["topics", "list", "--bootstrap", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert "no broker answers on 127.0.0.1:1" in result.stderr


@pytest.mark.parametrize("text", ["yesterday", "-1", "2026-13-01", ""])
def test_a_point_of_a_log_that_is_none_is_refused_with_what_to_write(text: str) -> None:
    result = CliRunner().invoke(command, ["topics", "trim", "a", "--before", text])
    assert result.exit_code == 2
    assert "is neither an offset, nor latest, nor a time such as" in result.stderr


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("create", f"a:{2**31}"), "is not NAME[:PARTITIONS"),
        (("create", "a", "--partitions", str(2**31)), "--partitions"),
        (("create", "a", "--replicas", str(2**15)), "--replicas"),
        (("alter", "a", "--partitions", str(2**31)), "--partitions"),
        (("trim", "a", "--before", str(2**63)), f"{2**63} is no offset, which is {2**63 - 1} at most"),
        (("trim", "a", "--before", "1969-12-31T23:59:59.999+00:00"), "is before 1970"),
        (("offsets", "a", "--at", "1969-12-31T23:59:59.999+00:00"), "is before 1970"),
        (("offsets", "a", "--at", "latest"), "'latest' is not a time such as 2026-01-31T12:00:00"),
    ],
)
def test_a_number_or_time_that_kafka_cannot_carry_is_refused(
    admin: FakeAdmin, words: tuple[str, ...], refusal: str
) -> None:
    result = CliRunner().invoke(command, ["topics", *words])
    assert (result.exit_code, admin.asked) == (2, [])
    assert refusal in result.stderr
