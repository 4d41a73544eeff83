"""The largest requests that clients send: for a topic of thousands of partitions, or as many groups or resources.

As `frames`, independent of ``wire``, and in versions below the flexible ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from tools.bench.frames import batch, create_topics, delete_topics, frame, metadata, string

PARTITIONS = 5_000
THINGS = 10_000
SESSIONLESS = -1


def of_partitions(topic: str, part: Callable[[int], bytes]) -> bytes:
    """An array of one topic with `part` of each partition."""
    return struct.pack(">i", 1) + string(topic) + struct.pack(">i", PARTITIONS) + b"".join(map(part, range(PARTITIONS)))


def produce(topic: str) -> bytes:
    """Produce version 8: a record to each partition."""
    records = batch(b"x")
    parts = of_partitions(topic, lambda index: struct.pack(">ii", index, len(records)) + records)
    return frame(0, 8, struct.pack(">hhi", -1, -1, 30_000) + parts)


def fetch(topic: str) -> bytes:
    """Fetch version 11 of each partition, without a session."""
    head = struct.pack(">iiiibii", -1, 0, 1, 50 << 20, 0, 0, SESSIONLESS)
    parts = of_partitions(topic, lambda index: struct.pack(">iiqqi", index, -1, 0, -1, 1 << 20))
    return frame(1, 11, head + parts + struct.pack(">i", 0) + string(""))


def offset_commit(topic: str) -> bytes:
    """OffsetCommit version 2 of each partition, by nobody who is a member."""
    head = string("largest") + struct.pack(">i", -1) + string("") + struct.pack(">q", -1)
    return frame(8, 2, head + of_partitions(topic, lambda index: struct.pack(">iq", index, 1) + string("")))


def describe_configs(topic: str) -> bytes:
    """DescribeConfigs version 1 of a topic, asked for a thousand times."""
    one = b"\x02" + string(topic) + struct.pack(">i", -1)
    return frame(32, 1, struct.pack(">i", THINGS // 10) + one * (THINGS // 10) + b"\0")


def delete_records(topic: str) -> bytes:
    """DeleteRecords version 0: the first record of each partition."""
    return frame(21, 0, of_partitions(topic, lambda index: struct.pack(">iq", index, 1)) + struct.pack(">i", 60_000))


def describe_groups() -> bytes:
    """DescribeGroups version 0 of groups that nobody knows."""
    return frame(15, 0, struct.pack(">i", THINGS) + b"".join(string(f"g{index}") for index in range(THINGS)))


def requests(topic: str) -> Mapping[str, bytes]:
    """By name, in an order in which each finds what it needs."""
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
        "DeleteRecords": delete_records(topic),
        "DeleteTopics": delete_topics([topic]),
    }
