"""The proof of an archive by its own commits, and offsets that were deleted behind its end, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.jobs import verify
from pykbroker.pipeline.jobs.archived import ArchiveClaims
from pykbroker.pipeline.jobs.commits import ArchivedRange
from pykbroker.pipeline.jobs.proof import (
    NO_DAY,
    HeldRecords,
    batch_losses,
    between_batches,
    day_text,
    held,
    unlike,
    unproven_losses,
)
from pykbroker.pipeline.jobs.skipped import SkippedRange, never_archived

ONE, TWO, THREE = (TopicPartition("t", index) for index in range(3))


def test_days_of_a_partition_add_up_and_strayed_records_are_noticed() -> None:
    rows = [("t", 0, "1970-01-02", 0, 4, 5, 6, 1, 1), ("t", 0, None, 5, 6, 2, 3, NO_DAY, NO_DAY)]
    assert held(rows) == ({ONE: ArchivedRange(0, 0, 6, 7, 5, topic="t")}, False)
    assert held([("t", 0, "1970-01-02", 0, 4, 5, 6, 1, 2)]).has_strayed
    assert held([("t", 0, "1970-01-02", 0, 4, 5, 6, NO_DAY, NO_DAY)]).has_strayed
    assert held([("t", 0, None, 0, 4, 5, 6, NO_DAY, 0)]).has_strayed
    assert [day_text(each) for each in (NO_DAY, -719_162, 0, 2_932_896)] == [
        None,
        "0001-01-01",
        "1970-01-01",
        "9999-12-31",
    ]


def test_partitions_differ_by_limits_numbers_and_checksums() -> None:
    claim = ArchivedRange(0, 0, 9, 10, 5, topic="t")
    for other in (
        ArchivedRange(0, 0, 9, 10, 4, topic="t"),
        ArchivedRange(0, 0, 9, 9, 5, topic="t"),
        ArchivedRange(0, 1, 9, 10, 5, topic="t"),
    ):
        assert unlike({ONE: claim}, {ONE: other}) == {ONE: claim}
    assert unlike({ONE: claim}, {}) == {ONE: claim}
    assert unlike({ONE: claim}, {ONE: claim}) == {}
    assert unlike({ONE: ArchivedRange(0, 0, 9, 10, topic="t")}, {ONE: claim}) == {}  # an archive of before


def test_batches_with_checksums_are_compared_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partition 0 has batches of an earlier version, and partition 1 has none."""
    before, newer = ArchivedRange(0, 0, 9, 10, topic="t"), ArchivedRange(0, 10, 19, 10, 5, topic="t")
    other = ArchivedRange(1, 0, 9, 10, 7, topic="t")
    ranges, proven = {ONE: before.plus(newer), TWO: other}, {ONE: newer, TWO: other}
    claims = ArchiveClaims({}, has_sums=True, ranges=ranges, proven=proven, batches=[before, newer])
    limits: list[object] = []
    found = ArchivedRange(0, 10, 19, 10, 4, topic="t")
    monkeypatch.setattr(verify, "within", lambda _, wanted: limits.append(wanted))
    monkeypatch.setattr(verify, "held_records", lambda *_, **__: HeldRecords({ONE: found}, has_strayed=False))
    monkeypatch.setattr(verify, "differing_batches", lambda _, batches, keys: [f"t-0: {batches}, {sorted(keys)}"])
    whole = HeldRecords({ONE: ArchivedRange(0, 0, 19, 20, 99, topic="t"), TWO: other}, has_strayed=False)
    arguments: Any = (None, claims, whole, {ONE, TWO})
    assert verify._own_losses(*arguments) == [f"t-0: {[before, newer]}, {[ONE]}"]
    assert limits == [{ONE: (10, 20)}]
    monkeypatch.setattr(verify, "differing_batches", lambda *_: [])
    assert verify._own_losses(*arguments) == [
        "t-0: between the offsets 10 and 19 the archive has other records than its commits"
    ]
    found = newer
    assert verify._own_losses(*arguments) == []


def test_losses_are_as_narrow_as_the_commits() -> None:
    batches = [ArchivedRange(0, first, first + 9, 10, 5, topic="t") for first in (0, 10, 20, 30)]
    found = {("t", 0, 0): (0, 9, 10, 5), ("t", 0, 10): (10, 19, 9, 5), ("t", 0, 20): (20, 29, 10, 4)}
    assert batch_losses(batches, found) == [
        "t-0: between the offsets 10 and 19 the archive has 9 records, and its commits 10",
        "t-0: between the offsets 20 and 29 the archive has other records than its commits",
        "t-0: between the offsets 30 and 39 the archive has 0 records, and its commits 10",
    ]


def test_no_difference_is_without_a_sentence() -> None:
    """A record is forged between two batches, at the offset of a marker."""
    batches = [ArchivedRange(0, 0, 9, 10, 3, topic="t"), ArchivedRange(0, 11, 19, 9, 5, topic="t")]
    claimed = {ONE: batches[0].plus(batches[1]), TWO: ArchivedRange(1, 0, 9, 10, 3, topic="t")}
    found = {ONE: ArchivedRange(0, 0, 19, 20, 3 ^ 5 ^ 7, topic="t"), TWO: ArchivedRange(1, 0, 9, 10, 4, topic="t")}
    differing = unlike(claimed, found)
    assert batch_losses(batches, {("t", 0, 0): (0, 9, 10, 3), ("t", 0, 11): (11, 19, 9, 5)}) == []
    assert between_batches(differing, found, ["t-1: said", "t-00: of another topic"]) == [
        "t-0: between the offsets 0 and 19 the archive has 20 records, and its commits 19"
    ]
    assert between_batches(differing, {ONE: found[ONE]}, ["t-0: said"]) == [
        "t-1: between the offsets 0 and 9 the archive has 0 records, and its commits 10"
    ]
    assert between_batches({}, found, []) == []


def test_records_outside_of_the_commits_are_losses() -> None:
    claim, more = ArchivedRange(0, 0, 9, 10, 5, topic="t"), ArchivedRange(0, 0, 12, 11, 5, topic="t")
    assert unproven_losses({ONE: claim}, {ONE: claim}) == []
    assert unproven_losses({ONE: claim}, {ONE: more, TWO: more}) == [
        "t-0: the archive has records between the offsets 0 and 12, and its commits only from 0 to 9",
        "t-1: the archive has records between the offsets 0 and 12, and its commits name none",
    ]


def test_offsets_deleted_behind_the_archive_are_named_also_of_new_partitions() -> None:
    other = TopicPartition("unknown", 0)
    starts = {ONE: 30, TWO: 5, THREE: 20, other: 9}
    assert never_archived({ONE: 10, TWO: 5}, starts, {"t"}) == [
        SkippedRange("t", 0, 10, 30),
        SkippedRange("t", 2, 0, 20),
    ]
