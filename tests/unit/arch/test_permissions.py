"""Every API has a row in the table of permissions, and every row an API: none is served that nobody has decided on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pykbroker.core.security.permissions import PERMISSIONS
from wire.api import ApiKey

APIS = Path(__file__).parents[3] / "pykbroker" / "apis"


def unmatched(files: Iterable[str], rows: Iterable[ApiKey]) -> set[str]:
    """APIs that have a file without a row, or a row without a file."""
    return set(files) ^ {key.name.lower() for key in rows}


def test_every_api_has_its_row():
    assert unmatched((path.stem for path in APIS.glob("[!_]*.py")), PERMISSIONS) == set()


def test_a_missing_row_and_a_missing_file_are_found():
    assert unmatched(["fetch", "produce"], [ApiKey.FETCH, ApiKey.METADATA]) == {"produce", "metadata"}
