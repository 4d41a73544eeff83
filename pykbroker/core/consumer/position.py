"""Positions in a partition, and the leader at which they are valid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pykbroker.core.topic_partition import TopicPartition
from wire.sentinels import NO_LEADER_EPOCH


class PartitionLeader(NamedTuple):
    """The leader of a partition, or None if it has none, and its leader epoch, or -1 if it is unknown."""

    node: int | None
    epoch: int = NO_LEADER_EPOCH


NO_LEADER_OR_EPOCH = PartitionLeader(None)
PartitionLeaderOf = Callable[[TopicPartition], PartitionLeader]


class FetchPosition(NamedTuple):
    """The offset of the next record, the leader epoch of the record before it, and the leader to fetch from.

    The epoch is -1 if it is unknown. Such a position cannot be validated (KIP-320).
    """

    offset: int
    epoch: int = NO_LEADER_EPOCH
    leader: PartitionLeader = NO_LEADER_OR_EPOCH


class CommittedOffset(NamedTuple):
    """An offset of a group: that of the next record, the leader epoch of the record before it or -1, and a text."""

    offset: int
    epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


def offsets_to_commit(given: Mapping[TopicPartition, CommittedOffset | int]) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets that a user gave, where a number stands for an offset without leader epoch and text.

    Raise TypeError for other values, and ValueError for a negative offset.
    """
    return {TopicPartition(*partition): _committed(partition, each) for partition, each in given.items()}


def _committed(partition: TopicPartition, given: CommittedOffset | int) -> CommittedOffset:
    found = CommittedOffset(given) if isinstance(given, int) else given
    if not isinstance(found, CommittedOffset):
        raise TypeError(f"{partition}: {given!r} is neither a CommittedOffset nor a number")
    if found.offset < 0:
        raise ValueError(f"{partition}: the offset {found.offset} is negative")
    return found
