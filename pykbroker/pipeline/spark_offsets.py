"""The offsets up to which a batch of a stream reads, as Spark has noted them in its checkpoint before the batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.source.stream_offsets import STARTING
from pykbroker.pipeline.storage import Storage

SPARK = "spark"
"""The directory of Spark's own checkpoint in that of a job."""
FIRST_OFFSETS = "sources/0/0"
"""The file in which Spark's own connector notes the offsets at which the query has started."""
Ends = dict[str, dict[str, int]]
"""The offset behind the last record, by topic and partition, as in the JSON of Spark's offsets."""


def has_offsets(checkpoint: Storage) -> bool:
    """Whether Spark has planned a batch with this checkpoint."""
    return checkpoint.exists(f"{SPARK}/offsets")


def last_done(checkpoint: Storage) -> int | None:
    """Return the number of the last batch that Spark counts as written, or None if there is none."""
    return _last(checkpoint, "commits")


def last_planned(checkpoint: Storage) -> Ends | None:
    """Return the ends of the last batch that Spark has planned, or None if there is none."""
    batch = _last(checkpoint, "offsets")
    return None if batch is None else planned_ends(checkpoint, batch)


def is_done(checkpoint: Storage, batch: int) -> bool:
    """Whether Spark counts a batch as written."""
    return checkpoint.exists(f"{SPARK}/commits/{batch}")


def left_batch(checkpoint: Storage) -> int | None:
    """Return the number of the last batch if Spark has planned it and does not count it as written, or None."""
    batch = _last(checkpoint, "offsets")
    return None if batch is None or is_done(checkpoint, batch) else batch


def _last(checkpoint: Storage, directory: str) -> int | None:
    names = [each.path.rpartition("/")[2] for each in checkpoint.files(f"{SPARK}/{directory}")]
    return max((int(name) for name in names if name.isdecimal()), default=None)


def planned_ends(checkpoint: Storage, batch: int, *, or_start: bool = False) -> Ends:
    """Return the ends of a batch that Spark has planned. Raise StateConflict if Spark's file is damaged.

    `or_start`: of a stream that has found nothing to read yet, return the offsets at which it starts.
    """
    name = f"{SPARK}/offsets/{batch}"
    text = checkpoint.read(name).decode(errors="replace")
    return parsed_ends(text, f"{checkpoint.directory}/{name}", or_start=or_start)


def planned_starts(checkpoint: Storage, batch: int) -> Ends:
    """Return the offsets at which a batch begins: the ends of the one before it, or the start of the query.

    A partition that is new in the batch is left out.
    """
    if batch:
        return planned_ends(checkpoint, batch - 1, or_start=True)
    starts: Ends | None = _position(checkpoint, f"{SPARK}/offsets/0").get(STARTING)  # of the connector "python"
    return _position(checkpoint, f"{SPARK}/{FIRST_OFFSETS}") if starts is None else starts


def _position(checkpoint: Storage, name: str) -> dict[str, dict[str, Any]]:
    """Return the last line of a file of offsets. Raise StateConflict if it is damaged."""
    text = checkpoint.read(name).decode(errors="replace").rpartition("\n")[2]
    try:
        return msgspec.json.decode(text, type=dict[str, dict[str, Any]])
    except msgspec.MsgspecError as error:
        raise StateConflict(f"{checkpoint.directory}/{name} is damaged: {error}") from None


def reached(checkpoint: Storage) -> dict[TopicPartition, int]:
    """Return the offsets at which the next batch begins: the ends of the last one that is done, or nothing."""
    batch = last_done(checkpoint)
    return {} if batch is None else by_partition(planned_ends(checkpoint, batch, or_start=True))


def missing_ends(reached: Mapping[TopicPartition, int], wanted: Mapping[TopicPartition, int]) -> list[str]:
    """Return a sentence for each partition that has not been read up to a wanted end.

    A partition without any offset is not missing.
    """
    return [
        f"{key} is read up to offset {reached.get(key, 0)} of {end}"
        for key, end in sorted(wanted.items())
        if reached.get(key, 0) < end
    ]


def parsed_ends(text: str, place: str, *, or_start: bool = False) -> Ends:
    """Return the ends in a file of Spark's offsets: a version, a line of metadata, and a line for each source."""
    lines = text.splitlines()
    try:
        if len(lines) != 3:
            raise ValueError(f"{len(lines)} lines in place of 3")
        found = msgspec.json.decode(lines[2], type=dict[str, msgspec.Raw])
        if or_start and found.keys() == {STARTING}:
            return msgspec.json.decode(found[STARTING], type=Ends)
        return {name: msgspec.json.decode(raw, type=dict[str, int]) for name, raw in found.items() if name != STARTING}
    except ValueError as error:  # also those of msgspec
        raise StateConflict(f"{place} is damaged: {error}") from None


def merged_ends(ends: Iterable[Ends]) -> Ends:
    """Return the ends of several batches. Of each partition, the last one that has read it has the end."""
    found: Ends = {}
    for each in ends:
        for topic, partitions in each.items():
            found.setdefault(topic, {}).update(partitions)
    return found


def by_partition(ends: Ends) -> dict[TopicPartition, int]:
    """Return ends by topic and partition."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in ends.items()
        for partition, offset in partitions.items()
    }
