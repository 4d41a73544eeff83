"""Which topics the members of a consumer group read, by name and by regular expression."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from pykbroker.core.group.consumer.group import ConsumerGroup, StoredMember
from pykbroker.core.metadata.image import TopicsImage

HASH_BYTES = 8


def names_of(said: StoredMember, matches: Mapping[str, list[str]]) -> set[str]:
    """The topics that a member subscribes to, there or not. `matches`: what each regular expression found."""
    return {*said.subscribed_topic_names, *matches.get(said.subscribed_topic_regex or "", ())}


def names_of_all(group: ConsumerGroup) -> set[str]:
    """The topics that any of the group's members subscribes to, there or not."""
    matches = {pattern: value.topics for pattern, value in group.regexes.items()}
    names: set[str] = set()
    for said in group.members.values():
        names |= names_of(said, matches)
    return names


def ids_of(names: set[str], topics: TopicsImage) -> frozenset[bytes]:
    """Those of them that are there."""
    return frozenset(topics.by_name[name].id for name in names if name in topics.by_name)


def hash_of(names: set[str], topics: TopicsImage) -> int:
    """A number that changes when a topic comes, goes or grows; 0 for none. Brokers need not agree on it."""
    known = [topics.by_name[name] for name in sorted(names) if name in topics.by_name]
    if not known:
        return 0
    digest = blake2b(digest_size=HASH_BYTES)
    for topic in known:
        digest.update(topic.id + len(topic.partitions).to_bytes(HASH_BYTES, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)
