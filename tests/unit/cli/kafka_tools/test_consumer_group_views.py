"""Tests of the columns of kafka-consumer-groups --describe."""

from __future__ import annotations

import pytest

from pykbroker.cli.kafka_tools.consumer_group_views import assignment, show


def test_an_assignment_has_its_partitions_by_topic() -> None:
    assert assignment(["paid-1-0", "paid-1-2", "orders-7"]) == "paid-1:0,2;orders:7"
    assert assignment([]) is None


@pytest.mark.parametrize(
    ("instance_id", "is_verbose", "lines"),
    [
        (None, False, ["GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS", "g m - - 1"]),
        ("i", False, ["GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS", "g m i - - 1"]),
        (
            None,
            True,
            [
                "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH"
                " TARGET-ASSIGNMENT",
                "g m - - 1 - a:0 - -",
            ],
        ),
    ],
)
def test_the_view_of_members_has_a_column_for_static_members_and_more_columns_with_verbose(
    capsys: pytest.CaptureFixture[str], instance_id: str | None, is_verbose: bool, lines: list[str]
) -> None:
    row = {"group": "g", "consumer_id": "m", "instance_id": instance_id, "partitions": 1, "current_assignment": ["a-0"]}
    show("members", [row], is_verbose=is_verbose)
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line] == lines
