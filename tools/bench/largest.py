"""The largest requests that clients send, for thousands of partitions, groups or resources.

The module does not use ``wire``, as `frames` does not. Versions are below the flexible versions where the API has any.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from tools.bench.frames import batch, create_topics, delete_topics, frame, metadata, string

PARTITIONS = 5_000
THINGS = 10_000
SESSIONLESS = -1
TRANSACTIONS = 20_000
TRANSACTION_TIMEOUT_MS = 60_000
NOT_A_BROKER = 99
TOPIC_RESOURCE, SET = 2, 0
PATTERN = "(" + "a?" * 300 + "){3}b"
"""A pattern that matches no transactional id, and for which a backtracking matcher needs exponential time."""


def of_partitions(topic: str, part: Callable[[int], bytes]) -> bytes:
    """Return an array of one topic, with `part` for each of its partitions."""
    return struct.pack(">i", 1) + string(topic) + struct.pack(">i", PARTITIONS) + b"".join(map(part, range(PARTITIONS)))


def produce(topic: str) -> bytes:
    """Return a Produce request (version 8) with a record for each partition."""
    records = batch(b"x")
    parts = of_partitions(topic, lambda index: struct.pack(">ii", index, len(records)) + records)
    return frame(0, 8, struct.pack(">hhi", -1, -1, 30_000) + parts)


def fetch(topic: str) -> bytes:
    """Return a Fetch request (version 11) for each partition, without a session."""
    head = struct.pack(">iiiibii", -1, 0, 1, 50 << 20, 0, 0, SESSIONLESS)
    parts = of_partitions(topic, lambda index: struct.pack(">iiqqi", index, -1, 0, -1, 1 << 20))
    return frame(1, 11, head + parts + struct.pack(">i", 0) + string(""))


def offset_commit(topic: str) -> bytes:
    """Return an OffsetCommit request (version 2) for each partition, without a member."""
    head = string("largest") + struct.pack(">i", -1) + string("") + struct.pack(">q", -1)
    return frame(8, 2, head + of_partitions(topic, lambda index: struct.pack(">iq", index, 1) + string("")))


def describe_configs(topic: str) -> bytes:
    """Return a DescribeConfigs request (version 1) that names one topic a thousand times."""
    one = b"\x02" + string(topic) + struct.pack(">i", -1)
    return frame(32, 1, struct.pack(">i", THINGS // 10) + one * (THINGS // 10) + b"\0")


def delete_records(topic: str) -> bytes:
    """Return a DeleteRecords request (version 0) for the first record of each partition."""
    return frame(21, 0, of_partitions(topic, lambda index: struct.pack(">iq", index, 1)) + struct.pack(">i", 60_000))


def describe_groups() -> bytes:
    """Return a DescribeGroups request (version 0) for groups that do not exist."""
    return frame(15, 0, struct.pack(">i", THINGS) + b"".join(string(f"g{index}") for index in range(THINGS)))


def add_partitions(topic: str, transactional_id: str, producer: tuple[int, int]) -> bytes:
    """Return an AddPartitionsToTxn request (version 0) for each partition."""
    head = string(transactional_id) + struct.pack(">qh", *producer)
    return frame(24, 0, head + of_partitions(topic, lambda index: struct.pack(">i", index)))


def elect_leaders(topic: str) -> bytes:
    """Return an ElectLeaders request (version 0) for each partition, although the preferred replicas are leaders
    already.
    """
    return frame(43, 0, of_partitions(topic, lambda index: struct.pack(">i", index)) + struct.pack(">i", 60_000))


def incremental_alter_configs() -> bytes:
    """Return an IncrementalAlterConfigs request (version 0) for topics that do not exist."""
    set_one = struct.pack(">i", 1) + string("retention.ms") + bytes((SET,)) + string("1")
    resources = b"".join(bytes((TOPIC_RESOURCE,)) + string(f"nowhere{index}") + set_one for index in range(THINGS))
    return frame(44, 0, struct.pack(">i", THINGS) + resources + b"\0")


def reassign(topic: str) -> bytes:
    """Return an AlterPartitionReassignments request (version 0) that moves each partition to an unknown broker."""
    part = length(1) + struct.pack(">i", NOT_A_BROKER) + b"\0"
    parts = b"".join(struct.pack(">i", index) + part for index in range(PARTITIONS))
    return flexible(45, 0, struct.pack(">i", 60_000) + length(1) + text(topic) + length(PARTITIONS) + parts + b"\0\0")


def describe_producers(topic: str) -> bytes:
    """Return a DescribeProducers request (version 0) for each partition."""
    parts = struct.pack(f">{PARTITIONS}i", *range(PARTITIONS))
    return flexible(61, 0, length(1) + text(topic) + length(PARTITIONS) + parts + b"\0\0")


def list_transactions(pattern: str) -> bytes:
    """Return a ListTransactions request (version 2) for the transactional ids that match a pattern."""
    return flexible(66, 2, length(0) + length(0) + struct.pack(">q", -1) + text(pattern) + b"\0")


def flexible(key: int, version: int, body: bytes) -> bytes:
    """Return a request frame with header version 2."""
    return frame(key, version, b"\0" + body)


def length(count: int) -> bytes:
    """Return the compact length of a string or an array."""
    count += 1
    out = b""
    while count > 127:
        out += bytes((count & 127 | 128,))
        count >>= 7
    return out + bytes((count,))


def text(characters: str) -> bytes:
    """Return a string after its compact length."""
    data = characters.encode()
    return length(len(data)) + data


def transactional_ids() -> list[str]:
    """Return transactional ids that are expensive to match with the hostile pattern."""
    return [f"{'a' * 40}{index}" for index in range(TRANSACTIONS)]


def init_producer(transactional_id: str) -> bytes:
    """Return an InitProducerId request (version 0)."""
    return frame(22, 0, string(transactional_id) + struct.pack(">i", TRANSACTION_TIMEOUT_MS))


def producer_of(reply: bytes) -> tuple[int, int] | None:
    """Return the producer id and epoch in a response to `init_producer`, or None for an error."""
    error, producer_id, epoch = struct.unpack_from(">hqh", reply, 8)
    return None if error else (producer_id, epoch)


def requests(topic: str, transactional_id: str = "", producer: tuple[int, int] = (0, 0)) -> Mapping[str, bytes]:
    """Return the requests by name, in the order in which they must be sent."""
    return {
        "CreateTopics": create_topics([topic], PARTITIONS),
        "Metadata": metadata([topic]),
        "Produce": produce(topic),
        "ListOffsets": frame(2, 1, struct.pack(">i", -1) + of_partitions(topic, lambda i: struct.pack(">iq", i, -1))),
        "OffsetForLeaderEpoch": frame(23, 2, of_partitions(topic, lambda i: struct.pack(">iii", i, -1, 0))),
        "Fetch": fetch(topic),
        "OffsetCommit": offset_commit(topic),
        "DescribeConfigs": describe_configs(topic),
        "DescribeLogDirs": frame(35, 1, struct.pack(">i", -1)),
        "DescribeGroups": describe_groups(),
        "AddPartitionsToTxn": add_partitions(topic, transactional_id, producer),
        "AlterPartitionReassignments": reassign(topic),
        "ElectLeaders": elect_leaders(topic),
        "IncrementalAlterConfigs": incremental_alter_configs(),
        "DescribeProducers": describe_producers(topic),
        "ListTransactions": list_transactions(PATTERN),
        "DeleteRecords": delete_records(topic),
        "DeleteTopics": delete_topics([topic]),
    }
