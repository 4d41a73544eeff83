"""The names of partition directories, and the file partition.metadata, which holds the topic id in each of them.

`<topic>-<partition>` holds a partition. `<topic>-<partition>.<32 hex digits>` with a suffix is another kind. `-delete`
will be removed, and `-stray` is kept for the operator. `-future` is a copy that will replace the partition's log in
another log directory (KIP-113). partition.metadata has two lines, `version: 0` and `topic_id: <22 characters>`, and no
newline at the end.
"""

from __future__ import annotations

import re

import msgspec

from pykbroker.core.ids import id_bytes, id_text
from pykbroker.core.topic_partition import TopicPartition

METADATA = "partition.metadata"
NAME = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]*)")
DELETED_NAME = re.compile(r".+\.[0-9a-f]{32}-delete")
ASIDE = re.compile(r".+\.[0-9a-f]{32}-stray")
FUTURE_NAME = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]*)\.[0-9a-f]{32}-future")
NAME_MAX = 255
"""The largest number of bytes in a file name on Linux."""
DELETE, STRAY, FUTURE = "delete", "stray", "future"


class PartitionDirectory(msgspec.Struct, frozen=True):
    """A partition that has a directory. `topic_id` is None if partition.metadata is missing or invalid."""

    key: TopicPartition
    topic_id: bytes | None


def directory_name(key: TopicPartition) -> str:
    """Return the name of a partition's directory, such as `orders-0`."""
    return str(key)


def parse_name(name: str, pattern: re.Pattern[str] = NAME) -> TopicPartition | None:
    """Return the partition of a directory name, or None for any other name.

    With FUTURE_NAME as `pattern`, parse the name of a future log.
    """
    found = pattern.fullmatch(name)
    return TopicPartition(found[1], int(found[2])) if found else None


def away_name(key: TopicPartition, unique: str, why: str) -> str:
    """Return a directory name for a deleted or stray partition, or for a future log.

    `unique` has 32 hexadecimal digits. `why` is the suffix.
    """
    end = f"-{key.partition}.{unique}-{why}"
    return key.topic[: NAME_MAX - len(end)] + end


def may_be_copied(key: TopicPartition) -> bool:
    """Whether the directory name of a future log would be short enough for the file system."""
    return len(f"{key}.-{FUTURE}") + 32 <= NAME_MAX


def encode_metadata(topic_id: bytes) -> bytes:
    """Return the content of partition.metadata."""
    return f"version: 0\ntopic_id: {id_text(topic_id)}".encode()


def decode_metadata(data: bytes) -> bytes | None:
    """Return the topic id, or None if the file is invalid."""
    found = re.fullmatch(rb"version: 0\s+topic_id: ([-\w]{22})\s*", data)
    try:
        return id_bytes(found[1].decode()) if found else None
    except ValueError:
        return None
