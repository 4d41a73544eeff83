"""The table of permissions has one row for each API, and no API requires a permission that its row lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from pykbroker.core.security.permissions import PERMISSIONS
from wire.api import ApiKey

APIS = Path(__file__).parents[3] / "pykbroker" / "apis"
FOR_PARTS: dict[str, set[tuple[str, str]]] = {
    "add_offsets_to_txn": {("READ", "GROUP")},
    "add_partitions_to_txn": {("WRITE", "TOPIC")},
    "consumer_group_describe": {("DESCRIBE", "TOPIC")},
    "consumer_group_heartbeat": {("DESCRIBE", "TOPIC")},
    "describe_transactions": {("DESCRIBE", "TOPIC")},
    "fetch": {("CLUSTER_ACTION", "CLUSTER")},
    "list_offsets": {("CLUSTER_ACTION", "CLUSTER")},
    "offset_commit": {("READ", "TOPIC")},
    "offset_delete": {("READ", "TOPIC")},
    "offset_fetch": {("DESCRIBE", "TOPIC")},
    "txn_offset_commit": {("READ", "GROUP"), ("READ", "TOPIC")},
}
"""Permissions that an API requires for parts of a request only, such as the topics of a described group."""


def sources() -> dict[str, str]:
    """Return the source of each API by its name. An API of several steps is a package."""
    found: dict[str, str] = {}
    for path in APIS.rglob("[!_]*.py"):
        name = path.relative_to(APIS).parts[1].removesuffix(".py")
        found[name] = found.get(name, "") + path.read_text()
    return found


def unmatched(files: Iterable[str], rows: Iterable[ApiKey]) -> set[str]:
    """Return the APIs with a file but no row in the table, or with a row but no file."""
    return set(files) ^ {key.name.lower() for key in rows}


def test_every_api_has_a_row_of_permissions():
    assert unmatched(sources(), PERMISSIONS) == set()


def test_an_api_without_a_row_or_without_a_file_is_found():
    assert unmatched(["fetch", "produce"], [ApiKey.FETCH, ApiKey.METADATA]) == {"produce", "metadata"}


def permissions_not_in_table(name: str, source: str) -> set[tuple[str, str]]:
    """Return the permissions that the file of an API mentions but that the API's row in the table does not have."""
    row = {(operation.name, resource.name) for operation, resource in PERMISSIONS[ApiKey[name.upper()]].parts}
    named = re.findall(r"Operation\.(\w+), (?:ResourceType|\*cluster)\.?(\w*)", source)
    return {(operation, resource) for operation, resource in named if (operation, resource) not in row}


def test_no_api_requires_a_permission_that_its_row_lacks():
    found = {name: permissions_not_in_table(name, source) for name, source in sources().items()}
    assert {name: beyond for name, beyond in found.items() if beyond} == FOR_PARTS


def test_a_permission_outside_the_table_is_found():
    source = "allows(p, Operation.READ, ResourceType.TOPIC, n) or allows(p, Operation.DELETE, ResourceType.TOPIC, n)"
    assert permissions_not_in_table("fetch", source) == {("DELETE", "TOPIC")}
