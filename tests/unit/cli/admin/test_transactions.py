"""Tests of `pykbroker transactions` with a broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykbroker.cli.admin.transactions import described, listed
from pykbroker.cli.main import pykbroker as command
from pykbroker.client.admin.admin import Admin
from tests.unit.cli.requests import begin_transaction, init_transactions, prepare
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.messages.describe_transactions import DescribeTransactionsResponse
from wire.messages.describe_transactions import TransactionState as Described
from wire.messages.list_transactions import ListTransactionsResponse
from wire.messages.list_transactions import TransactionState as Listed
from wire.messages.metadata import MetadataResponse, MetadataResponseBroker


def run(broker: str, *words: str) -> Result:
    return CliRunner().invoke(command, ["transactions", *words, "-b", broker])


def test_a_cluster_without_transactions_has_an_empty_list_and_stays_without_internal_topics(broker: str) -> None:
    assert run(broker, "list").stdout == "TRANSACTIONAL ID  COORDINATOR  PRODUCER ID  STATE\n"
    assert json.loads(run(broker, "list", "--json").stdout) == []
    refused = run(broker, "describe", "absent")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == "Error: no broker describes the transactional id 'absent' (NOT_COORDINATOR)\n"
    topics = CliRunner().invoke(command, ["topics", "list", "--json", "-b", broker])
    assert json.loads(topics.stdout) == []


def test_transactional_ids_are_listed_and_described(broker: str) -> None:
    async def open_transactions(admin: Admin) -> None:
        await admin.create_topic("orders", 2, -1, {})
        await begin_transaction(admin, "open", "orders", [0, 1])
        await init_transactions(admin, "idle")

    prepare(broker, open_transactions)
    rows = json.loads(run(broker, "list", "--json").stdout)
    assert [(row["transactional_id"], row["coordinator"], row["state"]) for row in rows] == [
        ("idle", 1, "Empty"),
        ("open", 1, "Ongoing"),
    ]
    result = run(broker, "describe", "open", "absent", "idle", "--json")
    assert result.exit_code == 1
    assert result.stderr == "Error: no broker describes the transactional id 'absent' (TRANSACTIONAL_ID_NOT_FOUND)\n"
    ongoing, empty = json.loads(result.stdout)
    assert ongoing.pop("start_time_ms") > 0
    assert ongoing == {
        "transactional_id": "open",
        "coordinator": 1,
        "producer_id": rows[1]["producer_id"],
        "producer_epoch": 0,
        "state": "Ongoing",
        "timeout_ms": 5000,
        "partitions": ["orders-0", "orders-1"],
    }
    assert (empty["state"], empty["start_time_ms"], empty["partitions"]) == ("Empty", None, [])
    head, line = run(broker, "describe", "open").stdout.splitlines()
    assert head.split("  ")[0] == "TRANSACTIONAL ID"
    assert line.split()[-1] == "orders-0,orders-1"


class Connection:
    """A fake connection to one broker of two, with its responses by API."""

    def __init__(self, *responses: Response) -> None:
        self.responses = {response.key: response for response in responses}
        self.closed = False

    async def ask(self, request: Request[Any], version: int | None = None) -> Response:
        return self.responses[request.key]

    def close(self) -> None:
        self.closed = True


def states(*codes_by_id: tuple[str, int]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[Described(transactional_id=key, error_code=code) for key, code in codes_by_id]
    )


async def connect(connections: Mapping[tuple[str, int], Connection], host: str, port: int) -> Connection:
    return connections[host, port]


@pytest.fixture
def two_brokers() -> tuple[Admin, dict[tuple[str, int], Connection]]:
    metadata = MetadataResponse(brokers=[MetadataResponseBroker(2, "b", 1), MetadataResponseBroker(1, "a", 1)])
    other = ErrorCode.NOT_COORDINATOR
    first = ListTransactionsResponse(transaction_states=[Listed("x", 5, "Empty")])
    second = ListTransactionsResponse(transaction_states=[Listed("y", 6, "Empty")])
    connections = {
        ("a", 1): Connection(first, states(("x", 0), ("y", other), ("z", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))),
        ("b", 1): Connection(second, states(("x", other), ("y", 0), ("z", other))),
    }
    admin = Admin(Connection(metadata), partial(connect, connections))  # type: ignore[arg-type]
    return admin, connections


async def test_transactional_ids_of_all_brokers_are_listed(
    two_brokers: tuple[Admin, dict[tuple[str, int], Connection]],
) -> None:
    admin, connections = two_brokers
    assert await listed(admin) == [("x", 1, 5, "Empty"), ("y", 2, 6, "Empty")]
    assert all(connection.closed for connection in connections.values())


async def test_a_transactional_id_is_described_by_its_coordinator(
    two_brokers: tuple[Admin, dict[tuple[str, int], Connection]],
) -> None:
    rows, refusals = await described(two_brokers[0], ["z", "y", "x"])
    assert [row[:2] for row in rows] == [("y", 2), ("x", 1)]
    assert refusals == ["no broker describes the transactional id 'z' (COORDINATOR_LOAD_IN_PROGRESS)"]
