"""Frames of requests that move partitions between log directories, and parsers for their responses.

The module does not use ``wire``, as `frames` does not. Its versions are below the flexible versions.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from tools.bench.frames import frame, string


def alter_replica_log_dirs(topic: str, partitions: Mapping[str, Sequence[int]]) -> bytes:
    """Return an AlterReplicaLogDirs request (version 1) with the partitions that move to each path."""
    dirs = [
        string(path) + struct.pack(">i", 1) + string(topic) + struct.pack(f">i{len(some)}i", len(some), *some)
        for path, some in partitions.items()
    ]
    return frame(34, 1, struct.pack(">i", len(dirs)) + b"".join(dirs))


def alter_replica_log_dirs_errors(reply: bytes) -> list[int]:
    """Return the error code of each partition in a response to `alter_replica_log_dirs`."""
    (count,), position, errors = struct.unpack_from(">i", reply, 8), 12, list[int]()
    for _ in range(count):
        position += 2 + struct.unpack_from(">h", reply, position)[0]
        (partitions,) = struct.unpack_from(">i", reply, position)
        errors += (code for _, code in struct.iter_unpack(">ih", reply[position + 4 : position + 4 + 6 * partitions]))
        position += 4 + 6 * partitions
    return errors


def describe_log_dirs() -> bytes:
    """Return a DescribeLogDirs request (version 1) for all partitions."""
    return frame(35, 1, struct.pack(">i", -1))


def places(reply: bytes, name: str) -> dict[int, str]:
    """Map each partition in a response to `describe_log_dirs` to its log directory, without future replicas."""
    found: dict[int, str] = {}
    (dirs,), position = struct.unpack_from(">i", reply, 8), 12
    for _ in range(dirs):
        path, position = text(reply, position + 2)
        (topics,), position = struct.unpack_from(">i", reply, position), position + 4
        for _ in range(topics):
            topic, position = text(reply, position)
            (partitions,) = struct.unpack_from(">i", reply, position)
            end = position + 4 + 21 * partitions
            for index, _, _, is_copy in struct.iter_unpack(">iqq?", reply[position + 4 : end]):
                if topic == name and not is_copy:
                    found[index] = path
            position = end
    return found


def text(data: bytes, position: int) -> tuple[str, int]:
    """Return a string and the position after it."""
    begin = position + 2
    end = begin + int.from_bytes(data[position:begin], "big")
    return data[begin:end].decode(), end


def delete_records(topic: str, partition: int, offset: int) -> bytes:
    """Return a DeleteRecords request (version 0) for the records of one partition below an offset."""
    parts = struct.pack(">i", 1) + string(topic) + struct.pack(">iiq", 1, partition, offset)
    return frame(21, 0, parts + struct.pack(">i", 60_000))
