"""The position of a source partition: the offset of the next source record to write, with what it belongs to."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import StateConflict


class PositionText(msgspec.Struct, frozen=True):
    """The text beside a committed position. `facts` are those of the job, and `records` counts what it has written."""

    facts: dict[str, str]
    records: int


class SourcePosition(msgspec.Struct, frozen=True):
    """The offset of the next source record to write, and the number of records that are written."""

    offset: int = 0
    records: int = 0


class PositionPlace(msgspec.Struct, frozen=True):
    """The group and the partition under which a position is committed. The partition must exist in the cluster."""

    group: str
    topic: str
    partition: int

    @property
    def key(self) -> TopicPartition:
        """Return the partition of the committed offset."""
        return TopicPartition(self.topic, self.partition)


def committed_position(position: SourcePosition, facts: Mapping[str, str]) -> CommittedOffset:
    """Return a position as an offset of a group."""
    text = msgspec.json.encode(PositionText(dict(facts), position.records)).decode()
    return CommittedOffset(position.offset, metadata=text)


def position_of(found: CommittedOffset | None, facts: Mapping[str, str], place: PositionPlace) -> SourcePosition:
    """Return the position in a committed offset, the start if there is none.

    Raise StateConflict if the offset belongs to a job with other facts, or to no job.
    """
    if found is None:
        return SourcePosition()
    try:
        text = msgspec.json.decode(found.metadata, type=PositionText)
    except msgspec.MsgspecError:
        raise StateConflict(
            f"the group {place.group} has an offset of {place.topic}-{place.partition} that is not one of this job: "
            "choose another name with --job"
        ) from None
    for name, value in facts.items():
        if text.facts.get(name) != value:
            raise StateConflict(
                f"the group {place.group} belongs to a job with {name}={text.facts.get(name, '')}, not {name}={value}: "
                "choose another name with --job, which begins at the first record again"
            )
    return SourcePosition(found.offset, text.records)
