"""The comparison of the records of an archive with what its commits claim."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import MagicMock

import pytest
from msgspec.structs import replace

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs import shortfalls as shortfalls_module
from pykbroker.pipeline.jobs.archived import ArchiveClaims
from pykbroker.pipeline.jobs.commits import ArchivedRange
from pykbroker.pipeline.jobs.shortfalls import has_checksums, require_claimed, require_newer, shortfalls

ORDERS = [ArchivedRange(0, 0, 1999, 2000, 77, topic="orders"), ArchivedRange(1, 5, 9, 5, 3, topic="orders")]
OTHER = ArchivedRange(0, 0, 0, 1, 8, topic="other")
CLAIMED = {each.key: each for each in [*ORDERS, OTHER]}


def test_what_the_commits_claim_is_no_shortfall() -> None:
    assert shortfalls(CLAIMED, [*ORDERS, OTHER]) == []
    assert shortfalls(CLAIMED, ORDERS, ["orders"]) == []


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ([], "orders-0: the archive's files have no records, and its commits 2,000 records from offset 0 to 1999"),
        ([("orders", 0, 0, 1998, 1999, 77)], "files have 1,999 records from offset 0 to 1998"),
        ([("orders", 0, 1, 1999, 2000, 77)], "files have 2,000 records from offset 1 to 1999"),
        ([("orders", 0, 0, 1999, 2001, 77)], "files have 2,001 records from offset 0 to 1999"),
        ([("orders", 0, 0, 1999, 2000, 76)], "orders-0: the archive's files have other contents than the 2,000 rec"),
        (
            [("orders", 0, 0, 1999, 2000, 77), ("orders", 2, 4, 4, 1, 0)],
            "orders-2: the archive's files have 1 record .* and its commits no records",
        ),
    ],
)
def test_each_kind_of_shortfall_has_a_sentence(
    found: Sequence[tuple[str, int, int, int, int, int]], sentence: str
) -> None:
    read = [ORDERS[1], *(ArchivedRange.of(*each) for each in found)]
    assert len(shortfalls(CLAIMED, read, ["orders"])) == 1
    with pytest.raises(PipelineError, match=rf"{sentence}.*\. Nothing was written: restore the files of /lake"):
        require_claimed(CLAIMED, read, "/lake", ["orders"])


def test_other_partitions_are_counted() -> None:
    with pytest.raises(PipelineError, match=r"orders-0: .* \(and 2 other partitions differ\)\. Nothing"):
        require_claimed(CLAIMED, [], "/lake")


def test_records_of_an_earlier_version_are_compared_without_checksums() -> None:
    before = ArchivedRange(0, 0, 1999, 2000, topic="orders")
    key = TopicPartition("orders", 0)
    assert shortfalls({key: before}, ORDERS[:1]) == shortfalls({key: ORDERS[0]}, [before]) == []
    assert len(shortfalls({key: before}, [ArchivedRange(0, 0, 1999, 1999, 5, topic="orders")])) == 1
    assert (has_checksums({key: before}), has_checksums(CLAIMED)) == (False, True)


@pytest.mark.parametrize("count", [10, 9])
def test_the_batches_with_checksums_of_a_partition_of_before_are_compared_by_them(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    before, newer, other = (
        ArchivedRange(0, 0, 9, 10, topic="t"),
        ArchivedRange(0, 10, 19, 10, 5, topic="t"),
        ArchivedRange(0, 0, 9, 9, topic="u"),
    )
    ranges, limits = {newer.key: before.plus(newer), other.key: other}, []
    claims, frame = ArchiveClaims({}, ranges=ranges, proven={newer.key: newer}), MagicMock()
    found = [replace(newer, count=count, checksum=4)]
    monkeypatch.setattr(shortfalls_module, "within", lambda _, wanted: limits.append(wanted))
    monkeypatch.setattr(shortfalls_module, "read_ranges", lambda _: found)
    assert shortfalls(ranges, [replace(each, checksum=4) for each in ranges.values()]) == []
    with pytest.raises(PipelineError, match="t-0: the archive's files have (other contents|9 records).* Nothing was"):
        require_newer(claims, frame, "/lake", ["t"])
    assert limits == [{newer.key: (10, 20)}]
    found = [newer]
    require_newer(claims, frame, "/lake")
    require_newer(claims, frame, "/lake", ["u"])
    require_newer(claims._replace(ranges={newer.key: newer}), frame, "/lake")
    assert len(limits) == 2


def test_a_directory_without_commits_claims_nothing() -> None:
    assert shortfalls({}, ORDERS) == []
