"""The names of partition directories, and partition.metadata, the file in each directory that holds its topic id.

`<topic>-<partition>` holds a partition. `<topic>-<partition>.<32 hex>-delete` will be removed, `-stray` is kept for the
operator, and `-future` is a copy that will replace the partition in another log directory (KIP-113).
partition.metadata: `version: 0`, a newline, `topic_id: <22 characters>`, no newline at the end.
"""

from __future__ import annotations

import re

import msgspec

from pykbroker.core.metadata.ids import id_bytes, id_text
from pykbroker.core.topic_partition import TopicPartition

METADATA = "partition.metadata"
NAME = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]*)")
DOOMED = re.compile(r".+\.[0-9a-f]{32}-delete")
ASIDE = re.compile(r".+\.[0-9a-f]{32}-stray")
FUTURE_NAME = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]*)\.[0-9a-f]{32}-future")
NAME_MAX = 255
DELETE, STRAY, FUTURE = "delete", "stray", "future"


class PartitionDirectory(msgspec.Struct, frozen=True):
    """A partition that has a directory. `topic_id` is None if partition.metadata is missing or invalid."""

    key: TopicPartition
    topic_id: bytes | None


def directory_name(key: TopicPartition) -> str:
    """Return the name of a partition's directory."""
    return str(key)


def parse_name(name: str, pattern: re.Pattern[str] = NAME) -> TopicPartition | None:
    """Return the partition of a directory, None for any other name. `pattern` FUTURE_NAME parses the name of a copy."""
    found = pattern.fullmatch(name)
    return TopicPartition(found[1], int(found[2])) if found else None


def away_name(key: TopicPartition, unique: str, why: str) -> str:
    """Return a directory name for a deleted or stray partition or a copy.

    `unique` has 32 hexadecimal digits. `why` is the suffix.
    """
    end = f"-{key.partition}.{unique}-{why}"
    return key.topic[: NAME_MAX - len(end)] + end


def may_be_copied(key: TopicPartition) -> bool:
    """Whether the name of a copy's directory has room for the full topic name."""
    return len(f"{key}.-{FUTURE}") + 32 <= NAME_MAX


def encode_metadata(topic_id: bytes) -> bytes:
    """Return the content of partition.metadata."""
    return f"version: 0\ntopic_id: {id_text(topic_id)}".encode()


def decode_metadata(data: bytes) -> bytes | None:
    """Return the topic id, None if the file is invalid."""
    found = re.fullmatch(rb"version: 0\s+topic_id: ([-\w]{22})\s*", data)
    try:
        return id_bytes(found[1].decode()) if found else None
    except ValueError:
        return None
