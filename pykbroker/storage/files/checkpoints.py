"""Kafka's checkpoint files: partitions' offsets in the root of a log directory, leader epochs in partition directories.

A file has a line with version 0, a line with the number of entries, then one line per entry. An empty file has no
entries. The files can be rebuilt. Invalid text raises CorruptCheckpoint, since a file that was not fsynced may hold
anything after a crash. The files have no checksum, so that a changed digit is not detected if the offsets are still in
ascending order.
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
    """An error for a checkpoint file with invalid text."""


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the content of an offset checkpoint, with a line `topic partition offset` for each partition."""
    return encode_header(len(offsets)) + encode_offset_lines(sorted(offsets.items()))


def encode_header(count: int) -> bytes:
    """Return the first two lines of a checkpoint with this number of entries."""
    return b"%d\n%d\n" % (VERSION, count)


def encode_offset_lines(offsets: Iterable[tuple[TopicPartition, int]]) -> bytes:
    """Return the lines of some partitions in an offset checkpoint."""
    return "".join([f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets]).encode()


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """Return the offsets by topic and partition. Raise CorruptCheckpoint if the text is invalid."""
    found: dict[TopicPartition, int] = {}
    for line in _decode(data):
        try:
            topic, partition, offset = line.split(" ")
            found[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CorruptCheckpoint(f"{line!r} is not `topic partition offset`") from None
    return found


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """Return the content of a leader epoch checkpoint, with a line `epoch start-offset` for each leader epoch."""
    lines = [f"{epoch} {start}\n" for epoch, start in entries]
    return encode_header(len(lines)) + "".join(lines).encode()


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    """Return (epoch, start offset) pairs, both ascending. Raise CorruptCheckpoint if the file is invalid or empty."""
    if not data:
        raise CorruptCheckpoint("the file is empty")
    found = []
    for line in _decode(data):
        try:
            epoch, start = map(int, line.split(" "))
        except ValueError:
            raise CorruptCheckpoint(f"{line!r} is not `epoch start-offset`") from None
        found.append((epoch, start))
    if not all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(found)):
        raise CorruptCheckpoint(f"epochs or offsets do not ascend: {found}")
    return found


def _decode(data: bytes) -> list[str]:
    """Return the lines of a checkpoint's entries, without the header lines."""
    if not data:
        return []
    try:
        version, count, *entries = data.decode().splitlines()
    except ValueError as error:
        raise CorruptCheckpoint(f"not a checkpoint: {error}") from error
    if version != str(VERSION):
        raise CorruptCheckpoint(f"version {version!r}, not {VERSION}")
    if count != str(len(entries)) or not data.endswith(b"\n"):
        raise CorruptCheckpoint(f"{len(entries)} entries, the file announces {count!r}")
    return entries
