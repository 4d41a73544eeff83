"""The sentences of `pykbroker produce`."""

from __future__ import annotations

import pytest

from pykbroker.cli.produce import counted


@pytest.mark.parametrize(
    ("records", "expected"),
    [(0, "0 records were"), (1, "1 record was"), (2, "2 records were"), (1000, "1000 records were")],
)
def test_a_number_of_records_agrees_with_its_verb(records: int, expected: str) -> None:
    assert counted(records) == expected
