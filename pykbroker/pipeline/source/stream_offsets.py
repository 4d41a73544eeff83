"""The position of a stream, as its checkpoint keeps it.

A Python data source has no place in the checkpoint for the offsets at which a stream starts. A first micro-batch that
is repeated after a restart would therefore start at another place with `startingOffsets=latest`. So the position after
the first micro-batch has these offsets as well, under a name that no topic can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pykbroker.pipeline.source.offset_json import OffsetMap, nested_of, offsets_of

STARTING = "@start"


class StreamPosition(NamedTuple):
    """The offsets up to which a stream has read, and, in its first micro-batch, those at which it starts.

    `offsets` is None before the first micro-batch.
    """

    offsets: OffsetMap | None
    starting: OffsetMap | None = None

    @property
    def reached(self) -> OffsetMap:
        """Return the offsets from which the stream goes on."""
        return (self.starting or {}) if self.offsets is None else self.offsets


def position_of(nested: Mapping[str, Mapping[str, Any]]) -> StreamPosition:
    """Return a position from the JSON of a checkpoint."""
    starting = nested.get(STARTING)
    rest = {topic: found for topic, found in nested.items() if topic != STARTING}
    if starting is None:
        return StreamPosition(offsets_of(rest))
    return StreamPosition(offsets_of(rest) if rest else None, offsets_of(starting))


def json_of(position: StreamPosition) -> dict[str, Any]:
    """Return a position as JSON for a checkpoint."""
    found: dict[str, Any] = {} if position.starting is None else {STARTING: nested_of(position.starting)}
    return found | nested_of(position.offsets or {})


def advanced(start: StreamPosition, ends: OffsetMap) -> StreamPosition:
    """Return the position at the end of the next micro-batch: `start` itself if there is nothing to read.

    Spark compares positions to find out whether there is something to read. As in Spark's connector, a stream without
    any partition waits for one.
    """
    if not ends or ends == start.reached:
        return start
    return StreamPosition(ends, start.starting if start.offsets is None else None)


def begin_of(start: StreamPosition, end: StreamPosition) -> OffsetMap:
    """Return the offsets at which a micro-batch begins. The first one begins where its first attempt began."""
    if start.offsets is None and end.starting is not None:
        return end.starting
    return start.reached
