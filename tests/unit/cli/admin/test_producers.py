"""Tests of `pykbroker producers` with a broker."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker as command
from pykbroker.client.admin.admin import Admin
from tests.unit.cli.requests import prepare, produce

PRODUCED_AT = 1_700_000_000_000


def run(broker: str, *words: str) -> Result:
    return CliRunner().invoke(command, ["producers", "describe", *words, "-b", broker])


@pytest.fixture(scope="module")
def producer_id(broker: str) -> int:
    """Return the id of a producer that has appended two records to orders-1."""
    found = []

    async def append(admin: Admin) -> None:
        await admin.create_topic("orders", 2, -1, {})
        found.append(await produce(admin, "orders", 1, PRODUCED_AT))

    prepare(broker, append)
    return found[0]


def test_the_producers_of_a_partition_are_described(broker: str, producer_id: int) -> None:
    expected = {
        "topic": "orders",
        "partition": 1,
        "producer_id": producer_id,
        "producer_epoch": 0,
        "coordinator_epoch": None,
        "last_sequence": 1,
        "last_timestamp": PRODUCED_AT,
        "transaction_start_offset": None,
    }
    assert json.loads(run(broker, "orders:1", "--json").stdout) == [expected]
    assert json.loads(run(broker, "orders", "--json").stdout) == [expected]
    assert run(broker, "orders").stdout.splitlines()[1].split() == [
        *("orders", "1", str(producer_id), "0", "-", "1", str(PRODUCED_AT), "-")
    ]


def test_a_partition_without_producers_has_only_a_heading(broker: str, producer_id: int) -> None:
    result = run(broker, "orders:0")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)


def test_partitions_that_exist_are_described_although_others_do_not(broker: str, producer_id: int) -> None:
    result = run(broker, "orders:7", "absent", "orders:1", "--json")
    assert result.exit_code == 1
    assert [row["partition"] for row in json.loads(result.stdout)] == [1]
    assert result.stderr == (
        "Error: Topic 'orders' has no partition 7 (UNKNOWN_TOPIC_OR_PARTITION)\n"
        "Topic 'absent' (UNKNOWN_TOPIC_OR_PARTITION)\n"
    )


def test_producers_of_an_absent_topic_print_no_table(broker: str) -> None:
    assert run(broker, "absent").stdout == ""


@pytest.mark.parametrize("text", ["", ":1", "orders:", "orders:x", "orders:-1", f"orders:{2**31}"])
def test_an_invalid_partition_is_refused_with_what_to_write(text: str) -> None:
    result = CliRunner().invoke(command, ["producers", "describe", text])
    assert result.exit_code == 2
    assert "is not TOPIC[:PARTITION], such as orders or orders:0" in result.stderr
