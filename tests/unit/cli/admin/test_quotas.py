"""Tests of `pykbroker quotas` with a broker."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker as command
from pykbroker.client.admin.admin import Admin
from tests.unit.cli.requests import prepare
from wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)


def run(broker: str, *words: str) -> Result:
    return CliRunner().invoke(command, ["quotas", "describe", *words, "-b", broker])


def entry(quotas: dict[str, float], **names: str | None) -> AlterClientQuotasRequestEntryData:
    entity = [EntityData(kind.replace("_", "-"), name) for kind, name in names.items()]
    return AlterClientQuotasRequestEntryData(entity, [OpData(key, value) for key, value in quotas.items()])


def test_a_cluster_without_quotas_has_only_a_heading(broker: str) -> None:
    assert run(broker).stdout == "ENTITY  QUOTA  VALUE\n"
    assert json.loads(run(broker, "--json").stdout) == []


def test_quotas_are_described_by_entity(broker: str) -> None:
    async def alter(admin: Admin) -> None:
        entries = [
            entry({"producer_byte_rate": 1048576, "request_percentage": 12.5}, user="alice", client_id=None),
            entry({"consumer_byte_rate": 1000}, client_id="app"),
        ]
        answer = await admin.connection.ask(AlterClientQuotasRequest(entries))
        assert [each.error_code for each in answer.entries] == [0, 0]

    prepare(broker, alter)
    assert [line.split() for line in run(broker).stdout.splitlines()[1:]] == [
        ["client-id=app", "consumer_byte_rate", "1000"],
        ["user=alice,client-id=<default>", "producer_byte_rate", "1048576"],
        ["user=alice,client-id=<default>", "request_percentage", "12.5"],
    ]
    assert json.loads(run(broker, "--json").stdout)[1] == {
        "entity": {"user": "alice", "client-id": None},
        "quota": "producer_byte_rate",
        "value": 1048576.0,
    }
