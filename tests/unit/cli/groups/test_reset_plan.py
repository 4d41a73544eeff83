"""Tests of the offsets that `pykbroker groups reset` chooses."""

from __future__ import annotations

from typing import Any

import click
import pytest

from pykbroker.cli.groups.reset_plan import (
    NothingToShift,
    PlannedOffset,
    ResetOffsets,
    duration,
    offsets_of_file,
    planned,
)
from pykbroker.core.topic_partition import TopicPartition

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
OFFSETS = ResetOffsets(earliest=10, latest=20, committed=15, at_time=12)
UNCOMMITTED = ResetOffsets(earliest=10, latest=20)


@pytest.mark.parametrize(
    ("kind", "value", "new"),
    [
        ("to_earliest", None, 10),
        ("to_latest", None, 20),
        ("to_current", None, 15),
        ("to_time", 5, 12),
        ("by_duration", 5, 12),
        ("to_offset", 11, 11),
        ("to_offset", 10, 10),
        ("to_offset", 20, 20),
        ("by", 5, 20),
        ("by", -5, 10),
        ("by", 0, 15),
        ("from_file", {FIRST: 13}, 13),
    ],
)
def test_a_target_within_the_log_is_the_new_offset(kind: str, value: Any, new: int) -> None:
    assert planned(kind, value, {FIRST: OFFSETS}) == [PlannedOffset(FIRST, 15, new, "")]


@pytest.mark.parametrize(
    ("kind", "value", "new", "remark"),
    [
        ("to_offset", 9, 10, "orders-0 begins after offset 9: its start 10 is used"),
        ("to_offset", 0, 10, "orders-0 begins after offset 0: its start 10 is used"),
        ("to_offset", 21, 20, "orders-0 ends before offset 21: its end 20 is used"),
        ("by", -6, 10, "orders-0 begins after offset 9: its start 10 is used"),
        ("by", 6, 20, "orders-0 ends before offset 21: its end 20 is used"),
        ("from_file", {FIRST: 400}, 20, "orders-0 ends before offset 400: its end 20 is used"),
    ],
)
def test_a_target_outside_of_the_log_becomes_its_nearest_end(kind: str, value: Any, new: int, remark: str) -> None:
    assert planned(kind, value, {FIRST: OFFSETS}) == [PlannedOffset(FIRST, 15, new, remark)]


def test_a_partition_without_a_record_from_the_time_on_is_reset_to_its_end() -> None:
    (only,) = planned("to_time", 5, {FIRST: OFFSETS._replace(at_time=None)})
    assert only == PlannedOffset(FIRST, 15, 20, "orders-0 has no record from this time on: its end 20 is used")


def test_a_partition_without_a_committed_offset_is_reset_to_its_end_by_to_current() -> None:
    (only,) = planned("to_current", None, {FIRST: UNCOMMITTED})
    assert only == PlannedOffset(FIRST, None, 20, "orders-0 has no committed offset: its end 20 is used")


def test_a_partition_without_a_committed_offset_cannot_be_shifted() -> None:
    with pytest.raises(NothingToShift, match="orders-1 has no committed offset to shift: reset it to an offset"):
        planned("by", 1, {FIRST: OFFSETS, SECOND: UNCOMMITTED})


def test_the_plan_is_sorted_by_partition() -> None:
    plan = planned("from_file", {SECOND: 11, FIRST: 12}, {SECOND: OFFSETS, FIRST: OFFSETS})
    assert [(each.partition, each.new) for each in plan] == [(FIRST, 12), (SECOND, 11)]


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90s", 90_000),
        ("15m", 900_000),
        ("2h", 7_200_000),
        ("7d", 604_800_000),
        ("P7D", 604_800_000),
        ("PT2H", 7_200_000),
        ("P1DT1H1M1S", 90_061_000),
        ("P0D", 0),
        ("pt1h0.5s", 3_600_500),
    ],
)
def test_a_duration_is_a_number_with_a_unit_or_in_the_form_of_iso_8601(text: str, ms: int) -> None:
    assert duration(text) == ms


@pytest.mark.parametrize("text", ["", "5", "h", "-1h", "P", "PT", "P1DT", "P1H", "1w", "2 h", "٣h", "9" * 16 + "d"])
def test_an_invalid_duration_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration such as 90s, 15m, 2h, 7d or P7DT2H"):
        duration(text)


def test_a_file_of_kafkas_export_is_read() -> None:
    lines = ['"orders",0,12\n', "\n", "orders, 1, 13\n"]
    assert offsets_of_file(lines, "f", "g") == {FIRST: 12, SECOND: 13}


def test_lines_of_other_groups_in_a_file_are_skipped() -> None:
    lines = ["g,orders,0,12\n", "other,orders,0,99\n", "g,orders,1,13\n"]
    assert offsets_of_file(lines, "f", "g") == {FIRST: 12, SECOND: 13}


@pytest.mark.parametrize("line", ["orders", "orders,0", "orders,x,1", "orders,0,-1", ",0,1", "orders,0,1,2,3"])
def test_an_invalid_line_of_a_file_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(click.BadParameter, match=f"f:2: '{line}' is not TOPIC,PARTITION,OFFSET, such as orders,0,42"):
        offsets_of_file(["orders,0,1\n", line], "f", "g")


@pytest.mark.parametrize("line", [f"orders,{2**31},1", f"orders,0,{2**63}", f"orders,0,{'9' * 5000}"])
def test_a_number_in_a_file_that_kafka_cannot_carry_is_refused(line: str) -> None:
    with pytest.raises(click.BadParameter, match="is not TOPIC,PARTITION,OFFSET"):
        offsets_of_file([line], "f", "g")


def test_two_offsets_for_one_partition_in_a_file_are_refused() -> None:
    with pytest.raises(click.BadParameter, match="f:2: orders-0 has two offsets, 1 and 2"):
        offsets_of_file(["orders,0,1\n", "orders,0,2\n"], "f", "g")


@pytest.mark.parametrize("lines", [[], ["\n"], ["other,orders,0,1\n"]])
def test_a_file_without_offsets_for_the_group_is_refused(lines: list[str]) -> None:
    with pytest.raises(click.BadParameter, match="f has no line TOPIC,PARTITION,OFFSET for the group g"):
        offsets_of_file(lines, "f", "g")
