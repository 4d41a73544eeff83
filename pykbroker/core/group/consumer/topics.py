"""The topics that a consumer group's members subscribe to, by name and by regular expression."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from pykbroker.core.group.consumer.group import ConsumerGroup, StoredMember
from pykbroker.core.metadata.image import TopicsImage

HASH_BYTES = 8


def names_of(stored_member: StoredMember, matches: Mapping[str, list[str]]) -> set[str]:
    """Return the topics to which a member subscribes, existing or not.

    `matches` has the topics of each regular expression.
    """
    return {*stored_member.subscribed_topic_names, *matches.get(stored_member.subscribed_topic_regex or "", ())}


def names_of_all(group: ConsumerGroup) -> set[str]:
    """Return the topics to which any member of the group subscribes, existing or not."""
    matches = {pattern: value.topics for pattern, value in group.regexes.items()}
    names: set[str] = set()
    for stored_member in group.members.values():
        names |= names_of(stored_member, matches)
    return names


def ids_of(names: set[str], topics: TopicsImage) -> frozenset[bytes]:
    """Return the ids of the topics that exist."""
    return frozenset(topics.by_name[name].id for name in names if name in topics.by_name)


def hash_of(names: set[str], topics: TopicsImage) -> int:
    """Return a hash that changes when a topic is created, deleted or gets more partitions; 0 for no topics.

    Brokers may compute different hashes.
    """
    known = [topics.by_name[name] for name in sorted(names) if name in topics.by_name]
    if not known:
        return 0
    digest = blake2b(digest_size=HASH_BYTES)
    for topic in known:
        digest.update(topic.id + len(topic.partitions).to_bytes(HASH_BYTES, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)
