"""Tests of the partition of `__consumer_offsets` for a group id, which depends on Java's string hash."""

from __future__ import annotations

import pytest

from pykbroker.core.coordinator.key import partition_of


@pytest.mark.parametrize(
    ("name", "hashed"),
    [("", 0), ("a", 97), ("hello", 99_162_322), ("polygenelubricants", 0), ("\U0001f600", 1_772_899)],
)
def test_the_hash_equals_javas_string_hash(name: str, hashed: int) -> None:
    assert partition_of(name, 2**31) == hashed
    assert partition_of(name, 50) == hashed % 50


def test_a_group_is_in_the_same_partition_as_in_kafka() -> None:
    found = {
        name: partition_of(name, 4)
        for name in (
            "g-classic",
            "g-txn",
            "g-live-classic",
            "g-meta",
            "g-848",
            "cov-txg-593x",
            "g-live-848",
            "cov-classic-593x",
        )
    }
    assert found == {
        "g-classic": 0,
        "g-txn": 0,
        "g-live-classic": 1,
        "g-meta": 1,
        "g-848": 2,
        "cov-txg-593x": 2,
        "g-live-848": 3,
        "cov-classic-593x": 3,
    }
