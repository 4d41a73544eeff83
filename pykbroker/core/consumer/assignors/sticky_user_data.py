"""The user data of sticky members: StickyAssignorUserData v0 and v1. The bytes have no version number.

Version 0 is an array of topics with their partitions. Version 1 appends the generation.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import error, pack, unpack_from

from pykbroker.core.consumer.assignors.ownership import Claim
from pykbroker.core.topic_partition import TopicPartition, indexes_by_topic
from wire.sentinels import NO_GENERATION_ID


def encode_sticky_user_data(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """Return version 1 of the user data; topics are in the order of their first partition."""
    topics = indexes_by_topic(partitions)
    out = [pack(">i", len(topics))]
    for topic, indexes in topics.items():
        name = topic.encode()
        out += [pack(">h", len(name)), name, pack(f">i{len(indexes)}i", len(indexes), *indexes)]
    return b"".join([*out, pack(">i", generation)])


def decode_sticky_user_data(data: bytes | None) -> Claim:
    """Return the claim of a member; user data that cannot be parsed claims nothing, as in Kafka."""
    if not data:
        return Claim((), NO_GENERATION_ID)
    partitions: list[TopicPartition] = []
    try:
        (topics,), at = unpack_from(">i", data), 4
        for _ in range(topics):
            (size,) = unpack_from(">h", data, at)
            topic = data[at + 2 : at + 2 + size].decode()
            (count,) = unpack_from(">i", data, at + 2 + size)
            indexes = unpack_from(f">{count}i", data, at + 6 + size)
            partitions += [TopicPartition(topic, index) for index in indexes]
            at += 6 + size + 4 * count
    except (error, UnicodeDecodeError):
        return Claim((), NO_GENERATION_ID)
    generation = unpack_from(">i", data, at)[0] if len(data) - at >= 4 else NO_GENERATION_ID
    return Claim(partitions, generation)
