"""Tests of `pykbroker configs` with a fake admin client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker as command
from pykbroker.core.address import Address
from wire.messages.describe_configs import DescribeConfigsResourceResult
from wire.messages.incremental_alter_configs import AlterableConfig

FOUND = [
    DescribeConfigsResourceResult(name="num.partitions", value="3", config_source=4, read_only=True),
    DescribeConfigsResourceResult(name="retention.ms", value="5", config_source=1),
    DescribeConfigsResourceResult(name="secret", value=None, config_source=2, is_sensitive=True),
    DescribeConfigsResourceResult(name="segment.ms", value=None, config_source=5),
]


class FakeAdmin:
    """A fake admin client that records its calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    async def configs(self, resource_type: int, name: str) -> list[DescribeConfigsResourceResult]:
        self.asked.append((resource_type, name))
        return FOUND

    async def alter_configs(
        self, resource_type: int, name: str, changes: Sequence[AlterableConfig], *, validate_only: bool
    ) -> None:
        asked = [(each.name, each.config_operation, each.value) for each in changes]
        self.asked.append((resource_type, name, asked, validate_only))


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    played = FakeAdmin()

    async def converse(bootstrap: Address, work: Callable[[FakeAdmin], Awaitable[None]], _: object) -> None:
        await work(played)

    monkeypatch.setattr("pykbroker.cli.ask.converse", converse)
    return played


def run(*words: str) -> Result:
    return CliRunner().invoke(command, ["configs", *words])


def test_describe_lists_configs_that_differ_from_their_defaults(admin: FakeAdmin) -> None:
    assert run("describe", "topic", "a").stdout == (
        "CONFIG          VALUE     SOURCE\n"
        "num.partitions  3         static broker, read-only\n"
        "retention.ms    5         dynamic topic\n"
        "secret          (hidden)  dynamic broker\n"
    )
    assert run("describe", "broker", "--all").stdout.endswith("segment.ms      (none)    default\n")
    assert admin.asked == [(2, "a"), (4, "")]


def test_alter_sends_all_changes_in_one_request(admin: FakeAdmin) -> None:
    words = "--set", "retention.ms=5", "--delete", "segment.ms", "--append", "cleanup.policy=compact"
    assert run("alter", "topic", "a", *words, "--subtract", "cleanup.policy=delete").exit_code == 0
    assert run("alter", "broker", "--set", "log.retention.ms=5", "--dry-run").exit_code == 0
    assert run("alter", "broker", "1", "--set", "listener.name.x.ssl.protocol=y").exit_code == 0
    assert admin.asked == [
        (
            2,
            "a",
            [
                ("segment.ms", 1, None),
                ("retention.ms", 0, "5"),
                ("cleanup.policy", 2, "compact"),
                ("cleanup.policy", 3, "delete"),
            ],
            False,
        ),
        (4, "", [("log.retention.ms", 0, "5")], True),
        (4, "1", [("listener.name.x.ssl.protocol", 0, "y")], False),
    ]


def test_log_levels_are_set_by_kafkas_names_or_those_of_the_start_option(admin: FakeAdmin) -> None:
    words = "--set", "pykbroker.server=debug", "--set", "root=Warning", "--delete", "pykbroker.quorum"
    result = run("alter", "broker-logger", "1", *words)
    assert result.stdout == "3 changes to the levels of broker-logger 1: made.\n"
    assert run("describe", "broker-logger", "1").exit_code == 0
    changes = [("pykbroker.quorum", 1, None), ("pykbroker.server", 0, "DEBUG"), ("root", 0, "WARN")]
    assert admin.asked == [(8, "1", changes, False), (8, "1")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["alter", "topic", "a", "--set", "retention.m=5"], "no topic config retention.m; did you mean retention.ms?"),
        (["alter", "broker", "1", "--append", "xyzzy=5"], "no broker config xyzzy"),
        (["alter", "topic", "a"], "nothing to change"),
        (["alter", "topic", "--delete", "segment.ms"], "name of the topic is missing"),
        (["alter", "broker", "one", "--delete", "x"], "not a broker id"),
        (["describe", "topic"], "name of the topic is missing"),
        (["describe", "brokers", "1"], "'topic', 'broker'"),
        (["alter", "broker-logger", "--set", "root=DEBUG"], "the id of the broker is missing"),
        (["describe", "broker-logger", "one"], "not a broker id"),
        (["describe", "topic", "a", "--al"], "--all"),
    ],
)
def test_an_invalid_command_line_sends_no_request_and_explains_the_error(
    admin: FakeAdmin, words: list[str], message: str
) -> None:
    result = run(*words)
    assert (result.exit_code, result.stdout, admin.asked) == (2, "", [])
    assert message in result.stderr
