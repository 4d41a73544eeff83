"""The command `pykbroker quotas describe`, which prints the quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from pykbroker.cli.ask import asking
from pykbroker.cli.tables import Table, json_option, print_json

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin

DEFAULT = "<default>"
"""The name of a default entity in a table, as in Kafka's tools. In JSON it is null."""


@click.group()
def quotas() -> None:
    """Describe the quotas of a running cluster."""


@quotas.command()
@json_option
@asking
async def describe(admin: Admin, as_json: bool) -> None:
    """Describe all quotas of users, client ids and IP addresses."""
    from pykbroker.client.admin.admin import check
    from wire.messages.describe_client_quotas import DescribeClientQuotasRequest

    answer = await admin.connection.ask(DescribeClientQuotasRequest())
    check(answer.error_code, answer.error_message or "quotas")
    found = [
        ({part.entity_type: part.entity_name for part in entry.entity}, quota.key, quota.value)
        for entry in answer.entries or ()
        for quota in entry.values
    ]
    found.sort(key=lambda quota: (entity_text(quota[0]), quota[1]))
    if as_json:
        print_json([{"entity": entity, "quota": key, "value": value} for entity, key, value in found])
    else:
        rows = [(entity_text(entity), key, f"{value:.15g}") for entity, key, value in found]
        Table(("entity", "quota", "value"), rows).print()


def entity_text(entity: Mapping[str, str | None]) -> str:
    """Return an entity as TYPE=NAME,..., such as user=alice,client-id=<default>."""
    return ",".join(f"{kind}={DEFAULT if entity[kind] is None else entity[kind]}" for kind in sorted(entity)[::-1])
