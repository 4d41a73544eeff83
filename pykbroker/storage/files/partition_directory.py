"""Names of partitions' directories, and the file in each that says which topic it belongs to.

`<topic>-<partition>`; `<topic>-<partition>.<32 hex>-delete` is to be removed, `-stray` is set aside, and `-future` is
a copy that another log directory's partition is to be replaced by (KIP-113).
partition.metadata: `version: 0`, a newline, `topic_id: <22 characters>`, no newline at the end.
"""

from __future__ import annotations

import re

import msgspec

from pykbroker.core.metadata.ids import id_bytes, id_text

METADATA = "partition.metadata"
NAME = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]*)")
DOOMED = re.compile(r".+\.[0-9a-f]{32}-delete")
ASIDE = re.compile(r".+\.[0-9a-f]{32}-stray")
FUTURE_NAME = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]*)\.[0-9a-f]{32}-future")
NAME_MAX = 255
DELETE, STRAY, FUTURE = "delete", "stray", "future"


class PartitionDirectory(msgspec.Struct, frozen=True):
    """A partition that has a directory. `topic_id` is None where the file is missing or says nothing."""

    topic: str
    partition: int
    topic_id: bytes | None


def directory_name(topic: str, partition: int) -> str:
    """Where the files of a partition are."""
    return f"{topic}-{partition}"


def parse_name(name: str, pattern: re.Pattern[str] = NAME) -> tuple[str, int] | None:
    """(topic, partition), None if the name is not a partition's; FUTURE_NAME as `pattern`: not that of its copy."""
    found = pattern.fullmatch(name)
    return (found[1], int(found[2])) if found else None


def away_name(topic: str, partition: int, unique: str, why: str) -> str:
    """The name of a directory that is no partition's any more. `unique`: 32 hexadecimal digits; `why`: its ending."""
    end = f"-{partition}.{unique}-{why}"
    return topic[: NAME_MAX - len(end)] + end


def may_be_copied(topic: str, partition: int) -> bool:
    """Whether the name of a copy's directory has room for the topic's, in full."""
    return len(f"{topic}-{partition}.-{FUTURE}") + 32 <= NAME_MAX


def encode_metadata(topic_id: bytes) -> bytes:
    """The content of partition.metadata."""
    return f"version: 0\ntopic_id: {id_text(topic_id)}".encode()


def decode_metadata(data: bytes) -> bytes | None:
    """The topic id, None if the file does not say."""
    found = re.fullmatch(rb"version: 0\s+topic_id: ([-\w]{22})\s*", data)
    try:
        return id_bytes(found[1].decode()) if found else None
    except ValueError:
        return None
