"""The comparison of the segments of an archive with those of its topics."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.audit.comparing import OpenSegment, comparisons, settled
from pykbroker.pipeline.cluster import LogEnds
from pykbroker.pipeline.errors import PipelineError


def row(side: str, segment: int, first: int, last: int, **changes: Any) -> dict[str, Any]:
    """Return the figures of a segment of t-0 that has all offsets from the first to the last one."""
    place = {"side": side, "topic": "t", "partition": 0, "segment": segment}
    figures = {"records": last - first + 1, "duplicates": 0, "offsets_hash": hash((first, last))}
    return {**place, "first_offset": first, "last_offset": last, **figures, **changes}


def kinds(*rows: dict[str, Any]) -> list[tuple[str, int]]:
    """Return what each settled segment is, and the number of its offsets."""
    found, _ = settled(rows)
    names = {"both", "missing", "not_archived", "deleted", "only_archived"}
    return [(name, each[name]) for each in found for name in names & each.keys()]


def test_segments_that_are_alike_need_no_further_look() -> None:
    assert kinds(row("topic", 0, 0, 9), row("archive", 0, 0, 9)) == [("both", 10)]
    assert kinds(row("topic", 0, 3, 9)) == [("not_archived", 7)]
    assert kinds(row("archive", 0, 3, 9)) == [("deleted", 7)]


def test_a_segment_on_one_side_is_judged_by_the_limits_of_the_other() -> None:
    sides = [row("topic", 0, 0, 9), row("archive", 1, 10, 19), row("topic", 2, 20, 29), row("archive", 3, 30, 35)]
    sides += [row("topic", 4, 40, 45)]
    expected = [("missing", 10), ("only_archived", 10), ("missing", 10), ("only_archived", 6), ("not_archived", 6)]
    assert kinds(*sides) == expected
    assert settled(sides)[0][0]["first_missing"] == 0
    assert kinds(row("archive", 0, 0, 9), row("topic", 1, 10, 19))[0] == ("deleted", 10)


@pytest.mark.parametrize(
    "rows",
    [
        [row("topic", 0, 0, 9), row("archive", 0, 0, 8)],
        [row("topic", 0, 0, 9), row("archive", 0, 0, 9, offsets_hash=1)],
        [row("topic", 0, 0, 9), row("archive", 0, 0, 9, records=11, duplicates=1)],
        [row("topic", 0, 0, 9, duplicates=1), row("archive", 0, 0, 9, duplicates=1)],
    ],
)
def test_segments_that_differ_are_compared_offset_by_offset(rows: list[dict[str, Any]]) -> None:
    assert settled(rows) == ([], [OpenSegment("t", 0, 0, rows[1]["last_offset"], 0)])


def test_the_sums_have_all_partitions_of_the_topics() -> None:
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    ends = LogEnds({one: 5, two: 0}, {one: 30, two: 0})
    rows, _ = settled([row("topic", 0, 5, 9), row("archive", 1, 10, 19), row("topic", 1, 10, 19)])
    more = {"topic": "t", "partition": 0, "both": 1, "missing": 2, "first_missing": 21}
    found = comparisons([*rows, more], ends)
    assert [(each.partition, each.log_start, each.log_end) for each in found] == [(0, 5, 30), (1, 0, 0)]
    assert (found[0].both, found[0].missing, found[0].first_missing, found[1].both) == (11, 7, 5, 0)


def test_an_archive_of_another_cluster_is_refused() -> None:
    rows, _ = settled([row("archive", 0, 0, 9)])
    with pytest.raises(PipelineError, match="has t-0, which the cluster lacks"):
        comparisons(rows, LogEnds({}, {}))
