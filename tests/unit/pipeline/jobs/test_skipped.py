"""The offsets that a log had deleted before they were archived."""

from __future__ import annotations

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import LogEnds
from pykbroker.pipeline.jobs.commits import ArchiveCommit, ArchivedRange, summed
from pykbroker.pipeline.jobs.skipped import SkippedRange, before_records, merged, skipped_losses, skipped_ranges
from pykbroker.pipeline.jobs.verify import figures

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_log_that_starts_behind_the_last_batch_has_a_skipped_range() -> None:
    previous, planned = {"t": {"0": 10}}, {"t": {"0": 50}}
    assert skipped_ranges(previous, planned, {ONE: 9}) == []
    assert skipped_ranges(previous, planned, {ONE: 10}) == []
    assert skipped_ranges(previous, planned, {ONE: 11}) == [SkippedRange("t", 0, 10, 11)]
    assert skipped_ranges(previous, planned, {ONE: 50}) == [SkippedRange("t", 0, 10, 50)]
    assert skipped_ranges(previous, planned, {ONE: 70}) == [SkippedRange("t", 0, 10, 50)]
    assert skipped_ranges(previous, planned, {}) == []


def test_a_new_partition_begins_at_0_and_a_new_topic_at_the_start_of_its_log() -> None:
    planned = {"t": {"0": 10, "1": 8}, "new": {"0": 9}}
    starts = {ONE: 0, TWO: 5, TopicPartition("new", 0): 5}
    assert skipped_ranges({"t": {"0": 10}}, planned, starts) == [SkippedRange("t", 1, 0, 5)]


def test_what_was_read_before_it_was_deleted_is_not_skipped() -> None:
    skipped = [SkippedRange("t", 0, 10, 20), SkippedRange("t", 1, 0, 5)]
    assert before_records(skipped, {}) == skipped
    assert before_records(skipped, {ONE: 20, TWO: 4}) == [skipped[0], SkippedRange("t", 1, 0, 4)]
    assert before_records(skipped, {ONE: 10, TWO: 5}) == [skipped[1]]


def test_a_batch_that_is_repeated_replaces_what_it_had_skipped() -> None:
    one, two, other = SkippedRange("t", 0, 10, 20), SkippedRange("t", 0, 10, 25), SkippedRange("t", 0, 40, 41)
    assert merged([two], [one]) == merged([one], [two]) == [two]
    assert merged([other], [one]) == [one, other]
    commits = [ArchiveCommit(0, {}, [], {}, [one]), ArchiveCommit(1, {}, [], {}, [other]), ArchiveCommit(2, {}, [])]
    assert summed(commits).skipped == [one, other]


def test_losses_are_sentences() -> None:
    skipped = [SkippedRange("t", 0, 10, 30), SkippedRange("u", 1, 5, 6)]
    one = "t-0: the topic had deleted the offsets 10 to 29 before they were archived"
    assert skipped_losses(skipped) == [one, "u-1: the topic had deleted the offset 5 before it was archived"]
    assert skipped_losses(skipped, ["t"]) == [one]


def test_skipped_offsets_are_neither_deleted_later_nor_without_records() -> None:
    ends = LogEnds({ONE: 30, TWO: 60}, {ONE: 50, TWO: 60})
    spans = {
        ONE: ArchivedRange(ONE.partition, 0, 49, 30, topic=ONE.topic),
        TWO: ArchivedRange(TWO.partition, 0, 9, 10, topic=TWO.topic),
    }
    found = figures(spans, {ONE: 50, TWO: 60}, ends, [SkippedRange("t", 0, 10, 30)])
    assert (found["deleted_by_retention"], found["never_archived"], found["offsets_without_records"]) == (20, 20, 0)
