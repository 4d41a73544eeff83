"""The partitions and offsets that a user of kafka-python passes, after a check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.topic_partition import TopicPartition


def checked(partitions: Iterable[Any]) -> list[TopicPartition]:
    """Return partitions. Raise TypeError for anything else, such as a name."""
    found = list(partitions)
    if not all(isinstance(each, tuple) and len(each) == 2 for each in found):
        raise TypeError("partitions must be TopicPartition namedtuples")
    return [TopicPartition(*each) for each in found]


def committed_offsets(offsets: Any) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets of a commit. Raise TypeError for anything that is no mapping to OffsetAndMetadata."""
    if not isinstance(offsets, Mapping) or not all(hasattr(each, "offset") for each in offsets.values()):
        raise TypeError("offsets must be dict[TopicPartition, OffsetAndMetadata]")
    keys = checked(offsets)
    return {
        key: CommittedOffset(each.offset, getattr(each, "leader_epoch", -1), each.metadata or "")
        for key, each in zip(keys, offsets.values(), strict=True)
    }
