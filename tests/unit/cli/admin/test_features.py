"""Tests of `pykbroker features` with a broker."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker as command
from pykbroker.client.connection import BrokerConnection
from wire.versions import Versions


def run(broker: str, *words: str) -> Result:
    return CliRunner().invoke(command, ["features", "describe", *words, "-b", broker])


def test_features_are_described_with_their_versions_and_levels(broker: str) -> None:
    rows = {row["feature"]: row for row in json.loads(run(broker, "--json").stdout)}
    assert list(rows) == sorted(rows)
    epoch = rows["metadata.version"]["epoch"]
    assert rows["transaction.version"] == {
        "feature": "transaction.version",
        "supported_min_version": 0,
        "supported_max_version": 2,
        "finalized_version_level": 2,
        "epoch": epoch,
    }
    assert epoch > 0
    lines = run(broker).stdout.splitlines()
    assert lines[0].split("  ")[0] == "FEATURE"
    assert ["transaction.version", "0", "2", "2", str(epoch)] in [line.split() for line in lines]


def test_a_broker_before_features_is_an_error(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    negotiate = BrokerConnection.negotiate

    async def negotiate_old(connection: BrokerConnection) -> None:
        await negotiate(connection)
        connection.versions[18] = Versions(0, 2)

    monkeypatch.setattr(BrokerConnection, "negotiate", negotiate_old)
    result = run(broker)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: the broker has no features: it is older than Apache Kafka 2.4\n"
