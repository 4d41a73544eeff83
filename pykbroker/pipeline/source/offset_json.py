"""Offsets of partitions in JSON, as in Spark's options and checkpoints: `{"topic": {"0": 23, "1": -1}}`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.errors import InvalidOption

OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
TIMESTAMPS_EXAMPLE = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
PARTITIONS_EXAMPLE = '{"topicA":[0,1],"topicB":[0,1]}'

OffsetMap = dict[TopicPartition, int]
Nested = dict[str, dict[str, int]]
"""Offsets as JSON has them, which a checkpoint keeps."""


def parse_offsets(option: str, text: str, example: str = OFFSETS_EXAMPLE) -> OffsetMap:
    """Return the offsets, or the timestamps, of an option. Raise InvalidOption with an example."""
    try:
        return offsets_of(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        raise InvalidOption(f"{option}: Expected e.g. {example}, got {text}") from None


def parse_partitions(option: str, text: str) -> list[TopicPartition]:
    """Return the partitions of an option such as `{"topic": [0, 1]}`. Raise InvalidOption with an example."""
    try:
        return sorted(
            TopicPartition(topic, _integer(index)) for topic, found in json.loads(text).items() for index in found
        )
    except (ValueError, TypeError, AttributeError):
        raise InvalidOption(f"{option}: Expected e.g. {PARTITIONS_EXAMPLE}, got {text}") from None


def offsets_of(nested: Mapping[str, Mapping[str, Any]]) -> OffsetMap:
    """Return offsets by partition."""
    return {
        TopicPartition(topic, int(index)): _integer(offset)
        for topic, found in nested.items()
        for index, offset in found.items()
    }


def nested_of(offsets: Mapping[TopicPartition, int]) -> Nested:
    """Return offsets as a checkpoint keeps them, in the order of their partitions."""
    found: Nested = {}
    for (topic, index), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(index)] = offset
    return found


def offsets_text(offsets: Mapping[TopicPartition, int]) -> str:
    """Return offsets as an option such as `endingOffsets` has them."""
    return json.dumps(nested_of(offsets), separators=(",", ":"))


def _integer(found: Any) -> int:
    if not isinstance(found, int) or isinstance(found, bool):
        raise TypeError(f"{found!r} is no integer")
    return found
