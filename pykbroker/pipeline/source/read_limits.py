"""The limits of a micro-batch: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger` and `maxTriggerDelay`.

The limits work as in Spark's Kafka connector. They need Spark 4.2, in which a Python data source may limit a
micro-batch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil, floor
from typing import NamedTuple

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.errors import InvalidOption
from pykbroker.pipeline.source.offset_json import OffsetMap

TRIGGER_OPTIONS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
DELAY_S_MAX = 15 * 60
"""The default of `maxTriggerDelay`."""
UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


class TriggerLimits(NamedTuple):
    """The numbers of offsets in a micro-batch, or None, and the time in s that it waits for the lower one."""

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_s: float = DELAY_S_MAX


def duration_s(name: str, text: str) -> float:
    """Return a time such as `15m` in s. Without a unit, it is in ms. Raise InvalidOption."""
    found = re.fullmatch(r"(\d+)([a-z]*)", text.strip().lower())
    if found is None or (found[2] or "ms") not in UNITS_S:
        raise InvalidOption(f"{name}={text} is not allowed: use a time such as 30s, 15m or 2h")
    return int(found[1]) * UNITS_S[found[2] or "ms"]


def check_limits(limits: TriggerLimits) -> None:
    """Raise InvalidOption if a micro-batch cannot satisfy both limits."""
    if limits.offsets_max is not None and limits.offsets_min is not None and limits.offsets_min > limits.offsets_max:
        raise InvalidOption(
            f"The value of minOffsetPerTrigger({limits.offsets_min}) is higher than the "
            f"maxOffsetsPerTrigger({limits.offsets_max})."
        )


def refuse_limits(options: Mapping[str, str], version: str) -> None:
    """Raise InvalidOption for a limit, in a version of Spark that has none for Python data sources."""
    for name in TRIGGER_OPTIONS:
        if name.lower() in options:
            raise InvalidOption(
                f"{name} needs Spark 4.2: in Spark {version}, a Python data source cannot limit a micro-batch. "
                "Leave out the option, or use Spark's format kafka"
            )


def limited(offsets_max: int, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> OffsetMap:
    """Return ends of about `offsets_max` offsets in total, in proportion to what each partition has.

    A partition that has something gets at least one offset. `begins` has the first offsets of new partitions too.
    """
    sizes = {each: end - begins[each] for each, end in ends.items() if end > begins.get(each, end)}
    total = sum(sizes.values())
    if not total:
        return dict(ends)
    found = dict(ends)
    for partition, size in sizes.items():
        share = offsets_max * size / total
        found[partition] = min(ends[partition], begins[partition] + (ceil(share) if share < 1 else floor(share)))
    return found


def offsets_between(begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """Return the number of offsets of a micro-batch, of new partitions from offset 0 on."""
    return sum(end - begins.get(partition, 0) for partition, end in ends.items())
