"""A model of `measures.segments` in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pykbroker.pipeline.audit.measures import MS_MAX
from pykbroker.pipeline.times import DAYS_END_MS, FIRST_DAY_MS


class Record(NamedTuple):
    """A record as the measures see it."""

    offset: int
    time_ms: int | None = None
    key: bytes | None = b"k"
    value: bytes | None = b"abc"
    side: str = "topic"
    topic: str = "t"
    partition: int = 0


def segment_rows(records: Iterable[Record], segment_offsets: int) -> list[dict[str, Any]]:
    """Return the rows of all segments, sorted by their places."""
    places: dict[tuple[str, str, int, int], list[Record]] = {}
    for each in records:
        place = (each.side, each.topic, each.partition, each.offset // segment_offsets)
        places.setdefault(place, []).append(each)
    return [_row(place, sorted(own, key=lambda each: each.offset)) for place, own in sorted(places.items())]


def _row(place: tuple[str, str, int, int], rows: Sequence[Record]) -> dict[str, Any]:
    steps = [two.offset - one.offset for one, two in pairwise(rows)]
    times = [row.time_ms for row in rows]
    pairs = [(one, two) for one, two in pairwise(times) if one is not None and two is not None]
    known = [ms for ms in times if ms is not None]
    late = [high - ms for at, ms in enumerate(times) if ms is not None for high in times[:at] if high is not None]
    sizes = [len(row.value) for row in rows if row.value is not None]
    return {
        **dict(zip(("side", "topic", "partition", "segment"), place, strict=True)),
        "records": len(rows),
        "first_offset": rows[0].offset,
        "last_offset": rows[-1].offset,
        "missing_offsets": sum(step - 1 for step in steps if step > 1),
        "gaps": sum(step > 1 for step in steps),
        "duplicates": steps.count(0),
        "steps_back": sum(two < one for one, two in pairs),
        "lateness_ms": min(max([0, *late]), MS_MAX),
        "low_ms": min(known, default=None),
        "high_ms": max(known, default=None),
        "first_ms": times[0],
        "last_ms": times[-1],
        "key_bytes": sum(len(row.key or b"") for row in rows),
        "value_bytes": sum(sizes),
        "header_bytes": 0,
        "value_bytes_max": max(sizes, default=0),
        "null_keys": sum(row.key is None for row in rows),
        "null_values": sum(row.value is None for row in rows),
        "undated": sum(ms is None or not FIRST_DAY_MS <= ms < DAYS_END_MS for ms in times),
    }
