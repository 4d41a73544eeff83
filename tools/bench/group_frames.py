"""Frames of group requests, and parsers for the response fields that rows read. The rules of `frames` apply."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from tools.bench.frames import frame, string

SESSION_MS, REBALANCE_MS = 45_000, 300_000
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
AFTER_THROTTLE = 8
"""The position of the body in a response, after the correlation id and the throttle time."""


def data(content: bytes) -> bytes:
    """Return bytes after their 32-bit length."""
    return struct.pack(">i", len(content)) + content


def commit_all(group: str, topic: str, partitions: int, offset: int) -> bytes:
    """Return an OffsetCommit request (version 2) for all partitions of a topic, without a member."""
    head = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">qi", -1, 1) + string(topic)
    body = b"".join(struct.pack(">iqh", index, offset, 0) for index in range(partitions))
    return frame(8, 2, head + struct.pack(">i", partitions) + body)


def commit_all_errors(reply: bytes, topic: str) -> set[int]:
    """Return the error codes in a response to `commit_all`."""
    (count,) = struct.unpack_from(">i", reply, start := 8 + len(string(topic)))
    return {code for _, code in struct.iter_unpack(">ih", reply[start + 4 : start + 4 + 6 * count])}


def fetch_all(group: str) -> bytes:
    """Return an OffsetFetch request (version 2) for all committed offsets of a group."""
    return frame(9, 2, string(group) + struct.pack(">i", -1))


def fetch_all_answer(reply: bytes) -> tuple[int, int]:
    """Return the error code of a response to `fetch_all`, and the number of offsets of its only topic."""
    (code,) = struct.unpack(">h", reply[-2:])
    (topics,) = struct.unpack_from(">i", reply, 4)
    if not topics:
        return code, 0
    (length,) = struct.unpack_from(">h", reply, 8)
    (count,) = struct.unpack_from(">i", reply, 10 + length)
    return code, count


def join(group: str, member_id: str, topic: str) -> bytes:
    """Return a JoinGroup request (version 3), whose response has the id of a new member."""
    subscription = struct.pack(">hi", 0, 1) + string(topic) + struct.pack(">i", -1)
    head = string(group) + struct.pack(">ii", SESSION_MS, REBALANCE_MS) + string(member_id) + string(PROTOCOL_TYPE)
    return frame(11, 3, head + struct.pack(">i", 1) + string(PROTOCOL) + data(subscription))


def join_answer(reply: bytes) -> tuple[int, int, str, list[str]]:
    """Return error code, generation and member id of a response to `join`, and all member ids if it is the leader's."""
    code, generation = struct.unpack_from(">hi", reply, AFTER_THROTTLE)
    _, pos = _string(reply, AFTER_THROTTLE + 6)
    _, pos = _string(reply, pos)
    member_id, pos = _string(reply, pos)
    (count,) = struct.unpack_from(">i", reply, pos)
    pos, members = pos + 4, []
    for _ in range(count):
        name, pos = _string(reply, pos)
        members.append(name)
        pos += 4 + int(struct.unpack_from(">i", reply, pos)[0])
    return code, generation, member_id, members


def sync(group: str, generation: int, member_id: str, members: Iterable[str] = ()) -> bytes:
    """Return a SyncGroup request (version 2). The leader assigns 100 bytes to every member."""
    given = [string(name) + data(bytes(100)) for name in members]
    head = string(group) + struct.pack(">i", generation) + string(member_id) + struct.pack(">i", len(given))
    return frame(14, 2, head + b"".join(given))


def heartbeat(group: str, generation: int, member_id: str) -> bytes:
    """Return a Heartbeat request (version 2)."""
    return frame(12, 2, string(group) + struct.pack(">i", generation) + string(member_id))


def leave(group: str, member_id: str) -> bytes:
    """Return a LeaveGroup request (version 2) of one member."""
    return frame(13, 2, string(group) + string(member_id))


def error(reply: bytes) -> int:
    """Return the error code in a response to `sync`, `heartbeat` or `leave`."""
    code: int = struct.unpack_from(">h", reply, AFTER_THROTTLE)[0]
    return code


def _string(reply: bytes, pos: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", reply, pos)
    return reply[pos + 2 : pos + 2 + length].decode(), pos + 2 + length
