"""The table of rights has an entry for each API, and handlers ask by the rows of their own API only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from pykbroker.apis.controller_apis import CONTROLLER_APIS
from pykbroker.core.security import rights
from pykbroker.core.security.rights import RIGHTS, Right
from wire.api import ApiKey

APIS = Path(__file__).parents[3] / "pykbroker" / "apis"


def sources() -> dict[str, str]:
    """Return the source of each API by its name. Some are packages, and those of the controller are rows of a table."""
    found = {key.name.lower(): '"""A row."""' for key in CONTROLLER_APIS}
    for path in APIS.glob("*/**/[!_]*.py"):
        name = path.relative_to(APIS).parts[1].removesuffix(".py")
        found[name] = found.get(name, "") + path.read_text()
    return found


def unmatched(files: Iterable[str], rows: Iterable[ApiKey]) -> set[str]:
    """Return the APIs with a file but no entry in the table, or with an entry but no file."""
    return set(files) ^ {key.name.lower() for key in rows}


def test_every_api_has_an_entry():
    assert unmatched(sources(), RIGHTS) == set()


def test_an_api_without_an_entry_or_without_a_file_is_found():
    assert unmatched(["fetch", "produce"], [ApiKey.FETCH, ApiKey.METADATA]) == {"produce", "metadata"}


def named_rows() -> dict[str, set[ApiKey]]:
    """Return the API of each name of the table that stands for a row, or for a row by type of config resource."""
    found = {}
    for name, value in vars(rights).items():
        rows = value.values() if isinstance(value, dict) and value is not RIGHTS else [value]
        apis = {row.api for row in rows if isinstance(row, Right)}
        if apis:
            found[name] = apis
    return found


def uses(api: str, source: str) -> set[str]:
    """Return the rows that the source of an API asks for: `FOO` in `may(context, FOO, name)`."""
    return {name for name in named_rows() if re.search(rf"(?<![\w.]){name}\b(?!\.)", source.split('"""', 2)[2])}


def test_every_row_is_asked_for_by_its_own_api_only():
    users: dict[str, set[str]] = {name: set() for name in named_rows()}
    for api, source in sources().items():
        for name in uses(api, source):
            users[name].add(api)
    assert users == {name: {api.name.lower() for api in apis} for name, apis in named_rows().items()}


def test_no_handler_asks_the_authorizer_itself():
    asking = re.compile(r"authorizer\.allows|\bOperation\b")
    assert [api for api, source in sources().items() if asking.search(source)] == []
