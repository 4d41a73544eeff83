"""Summaries of groups, which metrics are made from."""

from __future__ import annotations

from pykbroker.core.group.summary import GroupSummaries, SummarizeGroups
from tests.unit.core.group.talk import Talk
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic


def commit(talk: Talk, group: str, topic: str, partitions: int) -> None:
    """Commit offset 10 + partition for each partition."""
    offsets = [OffsetCommitRequestPartition(partition, 10 + partition) for partition in range(partitions)]
    talk.ask(OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=offsets)]), 8)


def summaries(talk: Talk, offsets_max: int) -> GroupSummaries:
    found: GroupSummaries = talk.ask(SummarizeGroups(offsets_max), 0)
    return found


def test_a_summary_has_the_members_and_the_committed_offsets_of_a_group() -> None:
    talk = Talk()
    talk.join(talk.new_id(group="members"), group="members")
    commit(talk, "offsets", "t", 2)
    commit(talk, "offsets", "u", 1)
    found = summaries(talk, 100)
    assert {group.group_id: group.members for group in found.groups} == {"members": 1, "offsets": 0}
    assert {group.group_id: group.offsets for group in found.groups} == {
        "members": [],
        "offsets": [("t", 0, 10), ("t", 1, 11), ("u", 0, 10)],
    }
    assert (found.cost, found.offsets_omitted) == (4, 0)


def test_a_group_whose_offsets_exceed_the_bound_is_left_out_and_smaller_ones_are_not() -> None:
    talk = Talk()
    commit(talk, "first", "t", 2)
    commit(talk, "large", "t", 5)
    commit(talk, "last", "t", 1)
    found = summaries(talk, 3)
    assert [group.group_id for group in found.groups] == ["first", "last"]
    assert (found.cost, found.offsets_omitted) == (3, 5)


def test_groups_without_offsets_are_bounded_too() -> None:
    talk = Talk()
    for group in "abc":
        talk.join(talk.new_id(group=group), group=group)
    found = summaries(talk, 2)
    assert (len(found.groups), found.offsets_omitted) == (2, 1)
