"""Tests of the summaries of groups, from which metrics are made."""

from __future__ import annotations

from pykbroker.core.group.summary import GroupSummaries, SummarizeGroups
from tests.unit.core.group.harness import GroupHarness
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic


def commit(harness: GroupHarness, group: str, topic: str, partitions: int) -> None:
    """Commit offset 10 + partition for each partition."""
    offsets = [OffsetCommitRequestPartition(partition, 10 + partition) for partition in range(partitions)]
    harness.ask(OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=offsets)]), 8)


def summaries(harness: GroupHarness, offsets_max: int) -> GroupSummaries:
    found: GroupSummaries = harness.ask(SummarizeGroups(offsets_max), 0)
    return found


def test_a_summary_has_the_members_and_the_committed_offsets_of_a_group() -> None:
    harness = GroupHarness()
    harness.join(harness.new_id(group="members"), group="members")
    commit(harness, "offsets", "t", 2)
    commit(harness, "offsets", "u", 1)
    found = summaries(harness, 100)
    assert {group.group_id: group.members for group in found.groups} == {"members": 1, "offsets": 0}
    assert {group.group_id: group.offsets for group in found.groups} == {
        "members": [],
        "offsets": [("t", 0, 10), ("t", 1, 11), ("u", 0, 10)],
    }
    assert (found.cost, found.offsets_omitted) == (4, 0)


def test_a_group_whose_offsets_exceed_the_limit_is_left_out_of_the_summary() -> None:
    harness = GroupHarness()
    commit(harness, "first", "t", 2)
    commit(harness, "large", "t", 5)
    commit(harness, "last", "t", 1)
    found = summaries(harness, 3)
    assert [group.group_id for group in found.groups] == ["first", "last"]
    assert (found.cost, found.offsets_omitted) == (3, 5)


def test_the_number_of_summarized_groups_without_offsets_is_limited() -> None:
    harness = GroupHarness()
    for group in "abc":
        harness.join(harness.new_id(group=group), group=group)
    found = summaries(harness, 2)
    assert (len(found.groups), found.offsets_omitted) == (2, 1)
