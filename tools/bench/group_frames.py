"""Request frames of groups, and the little of their answers that rows read. As `frames`, whose rules hold here."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from tools.bench.frames import frame, string

SESSION_MS, REBALANCE_MS = 45_000, 300_000
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
AFTER_THROTTLE = 8
"""Where an answer goes on behind its correlation id and throttle time."""


def data(content: bytes) -> bytes:
    """Bytes with their length of 32 bits."""
    return struct.pack(">i", len(content)) + content


def commit_all(group: str, topic: str, partitions: int, offset: int) -> bytes:
    """OffsetCommit version 2 of all partitions of a topic, by nobody who is a member."""
    head = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">qi", -1, 1) + string(topic)
    body = b"".join(struct.pack(">iqh", index, offset, 0) for index in range(partitions))
    return frame(8, 2, head + struct.pack(">i", partitions) + body)


def commit_all_errors(reply: bytes, topic: str) -> set[int]:
    """The error codes in an answer to `commit_all`."""
    (count,) = struct.unpack_from(">i", reply, start := 8 + len(string(topic)))
    return {code for _, code in struct.iter_unpack(">ih", reply[start + 4 : start + 4 + 6 * count])}


def fetch_all(group: str) -> bytes:
    """OffsetFetch version 2 of all that a group has committed."""
    return frame(9, 2, string(group) + struct.pack(">i", -1))


def fetch_all_answer(reply: bytes) -> tuple[int, int]:
    """The error code of an answer to `fetch_all`, and how many offsets it has of the one topic that there is."""
    (code,) = struct.unpack(">h", reply[-2:])
    (topics,) = struct.unpack_from(">i", reply, 4)
    if not topics:
        return code, 0
    (length,) = struct.unpack_from(">h", reply, 8)
    (count,) = struct.unpack_from(">i", reply, 10 + length)
    return code, count


def join(group: str, member_id: str, topic: str) -> bytes:
    """JoinGroup version 3, which gives a member its id at once."""
    subscription = struct.pack(">hi", 0, 1) + string(topic) + struct.pack(">i", -1)
    head = string(group) + struct.pack(">ii", SESSION_MS, REBALANCE_MS) + string(member_id) + string(PROTOCOL_TYPE)
    return frame(11, 3, head + struct.pack(">i", 1) + string(PROTOCOL) + data(subscription))


def join_answer(reply: bytes) -> tuple[int, int, str, list[str]]:
    """The error code, generation and member id in an answer to `join`; for a leader also the ids of all members."""
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
    """SyncGroup version 2; a leader gives every member 100 bytes."""
    given = [string(name) + data(bytes(100)) for name in members]
    head = string(group) + struct.pack(">i", generation) + string(member_id) + struct.pack(">i", len(given))
    return frame(14, 2, head + b"".join(given))


def heartbeat(group: str, generation: int, member_id: str) -> bytes:
    """Heartbeat version 2."""
    return frame(12, 2, string(group) + struct.pack(">i", generation) + string(member_id))


def leave(group: str, member_id: str) -> bytes:
    """LeaveGroup version 2, of one member."""
    return frame(13, 2, string(group) + string(member_id))


def error(reply: bytes) -> int:
    """The error code in an answer to `sync`, `heartbeat` or `leave`."""
    code: int = struct.unpack_from(">h", reply, AFTER_THROTTLE)[0]
    return code


def _string(reply: bytes, pos: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", reply, pos)
    return reply[pos + 2 : pos + 2 + length].decode(), pos + 2 + length
