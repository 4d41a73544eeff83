"""Frames of requests, built once and sent many times, and parsers for the response fields that rows read.

The module does not use ``wire``, so that every broker gets the same bytes and a defect of our codec cannot hide on both
sides. All versions are below the flexible versions, so that ``struct`` alone can build a frame.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from typing import Self

from fastcrc import crc32

CLIENT_ID = b"bench"


def frame(key: int, version: int, body: bytes, correlation_id: int = 1) -> bytes:
    """Return a request frame with header version 1, including its size field."""
    head = struct.pack(">hhih", key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(head) + len(body)) + head + body


def string(text: str) -> bytes:
    """Return a string after its 16-bit length."""
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def varint(number: int) -> bytes:
    """Return a zigzag varint of a number that is not negative."""
    number <<= 1
    out = b""
    while number > 127:
        out += bytes((number & 127 | 128,))
        number >>= 7
    return out + bytes((number,))


def batch(value: bytes) -> bytes:
    """Return a record batch with one record without a key, whose timestamp is the current time.

    The batch is not idempotent, so that it may be sent again.
    """
    record = b"\0\0\0\1" + varint(len(value)) + value + b"\0"
    record = varint(len(record)) + record
    now_ms = int(time.time() * 1000)
    body = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + record
    return struct.pack(">qiibI", 0, len(body) + 9, 0, 2, crc32.iscsi(body)) + body


def produce(topic: str, partition: int, records: bytes, acks: int = -1) -> bytes:
    """Return a Produce request (version 8) for one partition."""
    data = struct.pack(">iii", 1, partition, len(records)) + records
    return frame(0, 8, struct.pack(">hhii", -1, acks, 30_000, 1) + string(topic) + data)


def fetch(topic: str, partition: int, offset: int, wait_ms: int) -> bytes:
    """Return a Fetch request (version 11) for one partition, without a session and with min_bytes 1."""
    head = struct.pack(">iiiibiii", -1, wait_ms, 1, 50 << 20, 0, 0, -1, 1)
    part = struct.pack(">iiiqqi", 1, partition, -1, offset, -1, 1 << 20)
    return frame(1, 11, head + string(topic) + part + struct.pack(">i", 0) + string(""))


def list_offsets(topic: str, partition: int) -> bytes:
    """Return a ListOffsets request (version 1) for the end of one partition."""
    return frame(2, 1, struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, partition, -1))


def metadata(topics: Sequence[str] | None = ()) -> bytes:
    """Return a Metadata request (version 4) for topics, which are auto-created; ``None`` requests all topics."""
    body = struct.pack(">i", -1 if topics is None else len(topics)) + b"".join(map(string, topics or ()))
    return frame(3, 4, body + b"\1")


def find_coordinator(group: str) -> bytes:
    """Return a FindCoordinator request (version 0)."""
    return frame(10, 0, string(group))


def find_transaction_coordinator(transactional_id: str) -> bytes:
    """Return a FindCoordinator request (version 1) for a transactional id."""
    return frame(10, 1, string(transactional_id) + b"\1")


def find_coordinator_error(reply: bytes) -> int:
    """Return the error code of a response to `find_coordinator`."""
    code: int = struct.unpack_from(">h", reply, 4)[0]
    return code


def offset_commit(group: str, topic: str, partition: int, offset: int) -> bytes:
    """Return an OffsetCommit request (version 2) for one partition, without a member."""
    data = struct.pack(">iiq", 1, partition, offset) + string("")
    head = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">qi", -1, 1)
    return frame(8, 2, head + string(topic) + data)


def offset_commit_error(reply: bytes, topic: str) -> int:
    """Return the error code of a topic in a response to `offset_commit`."""
    code: int = struct.unpack_from(">h", reply, 4 + 4 + 2 + len(topic.encode()) + 4 + 4)[0]
    return code


def create_topics(names: Sequence[str], partitions: int, replicas: int = 1) -> bytes:
    """Return a CreateTopics request (version 4) without configs."""
    topics = b"".join(string(name) + struct.pack(">ihii", partitions, replicas, 0, 0) for name in names)
    return frame(19, 4, struct.pack(">i", len(names)) + topics + struct.pack(">i", 60_000) + b"\0")


def delete_topics(names: Sequence[str]) -> bytes:
    """Return a DeleteTopics request (version 3)."""
    return frame(20, 3, struct.pack(">i", len(names)) + b"".join(map(string, names)) + struct.pack(">i", 60_000))


def broker_count(metadata_reply: bytes) -> int:
    """Return the number of brokers in a Metadata response, 0 while no broker is registered."""
    count: int = struct.unpack_from(">i", metadata_reply, 8)[0]
    return count


def list_offsets_error(reply: bytes) -> int:
    """Return the error code in a response to `list_offsets`."""
    error: int = struct.unpack_from(">h", reply, len(reply) - 18)[0]
    return error


def list_offsets_offset(reply: bytes) -> int:
    """Return the offset in a response to `list_offsets`, or -1 for an error."""
    offset: int = struct.unpack_from(">q", reply, len(reply) - 8)[0]
    return offset


def create_topics_errors(reply: bytes) -> list[int]:
    """Return the error code of each topic in a response to `create_topics`."""
    (count,) = struct.unpack_from(">i", reply, 8)
    errors, position = [], 12
    for _ in range(count):
        position += 2 + struct.unpack_from(">h", reply, position)[0]
        error, message_bytes = struct.unpack_from(">hh", reply, position)
        errors.append(error)
        position += 4 + max(0, message_bytes)
    return errors


class Caller:
    """A blocking connection with one unanswered request at a time. A response begins with its correlation id."""

    def __init__(self, port: int, timeout_s: float = 60) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, request: bytes) -> bytes:
        """Send one frame and read one; raise ConnectionError if the broker closes the connection."""
        self.socket.sendall(request)
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def call_all(self, requests: Sequence[bytes]) -> list[bytes]:
        """Send all requests at once; return their responses."""
        self.socket.sendall(b"".join(requests))
        return [self._exactly(struct.unpack(">i", self._exactly(4))[0]) for _ in requests]

    def send_all(self, requests: Sequence[bytes]) -> None:
        """Send all requests at once, and do not read their responses."""
        self.socket.sendall(b"".join(requests))

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the broker closed the connection")
            data += more
        return data

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
