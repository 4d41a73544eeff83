"""Tests that the fields of `--json` are those that docs/operating.md lists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykbroker.cli.main import pykbroker as command
from pykbroker.client.admin.admin import Admin
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.cli.group_requests import commit, join_classic
from tests.unit.cli.requests import begin_transaction, prepare, produce
from wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)

PAGE = Path(__file__).parents[3] / "docs" / "operating.md"
COMMANDS = {
    "topics list": "topics list",
    "topics describe": "topics describe orders",
    "topics offsets": "topics offsets orders --at 2026-01-01",
    "brokers": "brokers",
    "configs describe": "configs describe broker 1 --all",
    "bench produce": "bench produce measured --count 1",
    "bench consume": "bench consume orders",
    "log-dirs": "log-dirs",
    "transactions list": "transactions list",
    "transactions describe": "transactions describe open",
    "producers describe": "producers describe orders",
    "features describe": "features describe",
    "quotas describe": "quotas describe",
    "groups list": "groups list",
    "groups describe": "groups describe idle",
    "groups describe --members": "groups describe busy --members",
    "groups describe --state": "groups describe busy --state",
    "groups reset": "groups reset idle --all-topics --to-earliest --dry-run",
}


@pytest.fixture(scope="module")
def busy_broker(broker: str) -> str:
    """Return the address of a broker with a topic, a producer, a transaction, a quota and two groups."""

    async def prepared(admin: Admin) -> None:
        await admin.create_topic("orders", 1, -1, {})
        await produce(admin, "orders", 0, 1)
        await begin_transaction(admin, "open", "orders", [0])
        quota = AlterClientQuotasRequestEntryData([EntityData("user", "alice")], [OpData("producer_byte_rate", 1.0)])
        await admin.connection.ask(AlterClientQuotasRequest([quota]))
        await commit(admin, "idle", {TopicPartition("orders", 0): 1})
        await join_classic(admin, "busy", [TopicPartition("orders", 0)])

    prepare(broker, prepared)
    return broker


def documented() -> dict[str, list[str]]:
    """Return the fields in the table of the page, by command."""
    rows = re.findall(r"^\| (`[a-z -]+`(?:, `[a-z -]+`)*) \| (`.*) \|$", PAGE.read_text(), re.MULTILINE)
    return {
        name: re.findall(r"`([a-z0-9_]+)`", fields)
        for names, fields in rows
        for name in re.findall(r"`([a-z -]+)`", names)
        if name in COMMANDS
    }


def printed_fields(element: dict[str, Any]) -> list[str]:
    """Return the fields of an element, and after them those of the elements in its last field."""
    last = list(element.values())[-1]
    return [*element, *(last[0] if isinstance(last, list) and last and isinstance(last[0], dict) else ())]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_documented_fields_are_printed_as_json(busy_broker: str, name: str) -> None:
    result = CliRunner().invoke(command, [*COMMANDS[name].split(), "--json", "-b", busy_broker])
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert printed_fields(found[0]) == documented()[name]
