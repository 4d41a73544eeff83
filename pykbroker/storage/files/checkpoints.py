"""Kafka's small text files: offsets of partitions in a log directory's root, leader epochs in a partition's.

Shape: a line with version 0, a line with the number of entries, then the entries, a line each. An empty file has none.
Disposable: CorruptCheckpoint where the text does not hold, which a file that was not synced may be. (There is no
checksum: a digit that changed so that the numbers still rise is believed.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from pykbroker.core.topic_partition import TopicPartition

VERSION = 0
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"


class CorruptCheckpoint(ValueError):
    """The text is not what was once written."""


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """`topic partition offset` for each."""
    return _encode(f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """Offsets by topic and partition."""
    found: dict[TopicPartition, int] = {}
    for line in _decode(data):
        try:
            topic, partition, offset = line.split(" ")
            found[topic, int(partition)] = int(offset)
        except ValueError:
            raise CorruptCheckpoint(f"{line!r} is not `topic partition offset`") from None
    return found


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """`epoch start-offset` for each."""
    return _encode(f"{epoch} {start}" for epoch, start in entries)


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    """(epoch, start offset), both rising. An empty file is not one that says that there are none."""
    if not data:
        raise CorruptCheckpoint("it is empty")
    found = []
    for line in _decode(data):
        try:
            epoch, start = map(int, line.split(" "))
        except ValueError:
            raise CorruptCheckpoint(f"{line!r} is not `epoch start-offset`") from None
        found.append((epoch, start))
    if not all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(found)):
        raise CorruptCheckpoint(f"{found} do not all rise")
    return found


def _encode(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "".join(f"{line}\n" for line in (VERSION, len(entries), *entries)).encode()


def _decode(data: bytes) -> list[str]:
    """The entries' lines."""
    if not data:
        return []
    try:
        version, count, *entries = data.decode().splitlines()
    except ValueError as error:
        raise CorruptCheckpoint(f"no checkpoint: {error}") from error
    if version != str(VERSION):
        raise CorruptCheckpoint(f"version {version!r}, not {VERSION}")
    if count != str(len(entries)) or not data.endswith(b"\n"):
        raise CorruptCheckpoint(f"{len(entries)} entries, {count!r} announced")
    return entries
