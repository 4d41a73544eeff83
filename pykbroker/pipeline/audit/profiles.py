"""The rows of `measures`, merged to profiles of topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from pykbroker.pipeline.audit.findings import (
    KeyCount,
    KeyShare,
    Measured,
    OffsetStrip,
    PartitionProfile,
    SideProfile,
    SizeCount,
    TimeSlot,
    TopicProfile,
)
from pykbroker.pipeline.audit.measures import OFFSET_SLOTS

CURVE_STEP = 0.01
SUMS = (
    "records",
    "missing_offsets",
    "gaps",
    "duplicates",
    "key_bytes",
    "value_bytes",
    "header_bytes",
    "null_keys",
    "null_values",
    "undated",
    "steps_back",
)
"""The figures of segments that are added."""


def merged(segments: Iterable[Measured]) -> PartitionProfile:
    """Return the profile of one partition from its segments, which are in any order."""
    rows = sorted(segments, key=lambda row: row["segment"])
    found = {name: sum(row[name] for row in rows) for name in SUMS}
    high_ms, lateness_ms = None, 0
    for row in rows:
        lateness_ms = max(lateness_ms, row["lateness_ms"])
        if row["low_ms"] is not None:
            high = high_ms if high_ms is not None else row["low_ms"]
            lateness_ms = max(lateness_ms, high - row["low_ms"])
            high_ms = max(high, row["high_ms"])
    for one, two in pairwise(rows):
        missing = two["first_offset"] - one["last_offset"] - 1
        found["missing_offsets"] += missing
        found["gaps"] += missing > 0
        if one["last_ms"] is not None and two["first_ms"] is not None:
            found["steps_back"] += two["first_ms"] < one["last_ms"]
    return PartitionProfile(
        partition=rows[0]["partition"],
        first_offset=rows[0]["first_offset"],
        last_offset=rows[-1]["last_offset"],
        value_bytes_max=max(row["value_bytes_max"] for row in rows),
        low_ms=min((row["low_ms"] for row in rows if row["low_ms"] is not None), default=None),
        high_ms=high_ms,
        lateness_ms_max=lateness_ms,
        **found,
    )


def side_profile(side: Any, place: str, rows: Mapping[str, Iterable[Measured]]) -> SideProfile:
    """Return the profile of one side. `rows` are those of the measures by their names, of all sides."""
    own = {name: [row for row in each if row["side"] == side] for name, each in rows.items()}
    topics = sorted({row["topic"] for row in own["segments"]})
    return SideProfile(side, place, [_topic_profile(topic, own) for topic in topics])


def _topic_profile(topic: str, rows: Mapping[str, Iterable[Measured]]) -> TopicProfile:
    own = {name: [row for row in each if row["topic"] == topic] for name, each in rows.items()}
    by_partition: dict[int, list[Measured]] = {}
    for row in own["segments"]:
        by_partition.setdefault(row["partition"], []).append(row)
    slots = [TimeSlot(row["start_ms"], row["width_ms"], row["records"], row["bytes"]) for row in own["timeline"]]
    frequencies = [(row["records"], row["keys"]) for row in own["key_frequencies"]]
    top_keys = sorted(own["top_keys"], key=lambda row: row["rank"])
    sizes = sorted(own["value_sizes"], key=lambda row: row["power"])
    return TopicProfile(
        topic,
        [merged(by_partition[partition]) for partition in sorted(by_partition)],
        sorted(slots, key=lambda slot: slot.start_ms),
        [KeyCount(key_text(bytes(row["key"]), row["key_bytes"]), row["records"]) for row in top_keys],
        sum(keys for _, keys in frequencies),
        top_percent(frequencies),
        key_curve(frequencies),
        [SizeCount(2 ** row["power"] if row["power"] else 0, row["records"]) for row in sizes],
    )


def top_percent(frequencies: Iterable[tuple[int, int]]) -> int:
    """Return the records of the most frequent hundredth of the keys, of at least one key.

    A frequency is a number of records, and the number of keys that have so many.
    """
    ordered = sorted(frequencies, reverse=True)
    left = -(-sum(keys for _, keys in ordered) // 100)
    found = 0
    for records, keys in ordered:
        found += records * min(keys, left)
        left -= min(keys, left)
    return found


def key_curve(frequencies: Iterable[tuple[int, int]]) -> list[KeyShare]:
    """Return the sums of keys and records, the most frequent keys first, in steps of at least CURVE_STEP of either."""
    ordered = sorted(frequencies, reverse=True)
    keys_in_all = sum(keys for _, keys in ordered)
    records_in_all = sum(records * keys for records, keys in ordered)
    curve, keys_so_far, records_so_far = [KeyShare(0, 0)], 0, 0
    for records, keys in ordered:
        keys_so_far += keys
        records_so_far += records * keys
        share = (keys_so_far - curve[-1].keys) / keys_in_all + (records_so_far - curve[-1].records) / records_in_all
        if share >= CURVE_STEP or keys_so_far == keys_in_all:
            curve.append(KeyShare(keys_so_far, records_so_far))
    return curve if keys_in_all else []


def key_text(key: bytes, key_bytes: int) -> str:
    """Return the first bytes of a key as text, with an ellipsis if it is longer."""
    is_cut = key_bytes > len(key)
    for cut in range(4 if is_cut else 1):  # the cut may be inside a character
        try:
            text = key[: len(key) - cut].decode()
        except UnicodeDecodeError:
            continue
        if text.isprintable() and (text or not is_cut):
            return text + "…" * is_cut
    return f"0x{key.hex()}" + "…" * is_cut


def strips(rows: Iterable[Measured]) -> list[OffsetStrip]:
    """Return a strip for each partition from the rows of `coverage`."""
    found: dict[tuple[str, int], OffsetStrip] = {}
    for row in rows:
        key = row["topic"], row["partition"]
        strip = found.setdefault(key, OffsetStrip(*key, row["start"], row["width"], {}))
        strip.counts.setdefault(row["side"], [0] * OFFSET_SLOTS)[row["slot"]] = row["records"]
    return [found[key] for key in sorted(found)]
