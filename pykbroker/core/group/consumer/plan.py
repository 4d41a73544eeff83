"""The group epoch and the target assignments of a consumer group after a change of members, subscriptions or topics."""

from __future__ import annotations

from collections import Counter

from pykbroker.core.group.consumer import stored
from pykbroker.core.group.consumer.assignors import ASSIGNORS, Subscriber
from pykbroker.core.group.consumer.draft import GroupDraft
from pykbroker.core.group.consumer.group import ConsumerGroup
from pykbroker.core.group.consumer.matching import is_finished, is_stale, search
from pykbroker.core.group.consumer.topics import hash_of, ids_of, names_of, names_of_all
from pykbroker.core.group.shard import Shard
from pykbroker.core.metadata.image import TopicsImage


def plan(draft: GroupDraft, shard: Shard, *, changed: bool) -> None:
    """Raise the group epoch and compute new targets if needed. `changed` says that a member or subscription is new."""
    topics, is_old = shard.topics(), is_stale(shard, draft.group.id, draft.step)
    # A change of any topic replaces the image, so that most heartbeats cost this comparison alone.
    if changed or is_old or draft.group.seen is not topics:
        # New partitions of a topic change the hash, but never the names that the patterns match.
        found = (changed or is_old or _changed(draft.group.seen, topics)) and _resolve(draft, shard, topics)
        number = hash_of(names_of_all(draft.group), topics)
        if changed or found or number != draft.group.metadata_hash:
            draft.write(stored.epoch(draft.group.id, draft.group.epoch + 1, number))
    if draft.group.assignment_epoch < draft.group.epoch:
        _assign(draft, topics, shard.settings.group_consumer_assignors)
    if is_finished(shard, draft.group.id):
        draft.group.seen = topics  # dropped with the draft if the log refuses the records


def _changed(seen: TopicsImage | None, topics: TopicsImage) -> bool:
    """Whether topics may have been created or deleted since `seen`."""
    return seen is None or seen.by_name.keys() != topics.by_name.keys()


def _resolve(draft: GroupDraft, shard: Shard, topics: TopicsImage) -> bool:
    """Write the topics that the regular expressions now match, and delete unused ones.

    Return whether any result has changed. A pattern keeps its previous topics until it has been matched against all
    names.
    """
    group = draft.group
    subscribed = dict.fromkeys(
        one.subscribed_topic_regex for one in group.members.values() if one.subscribed_topic_regex
    )
    for pattern in [one for one in group.regexes if one not in subscribed]:
        draft.write(stored.regex(group.id, pattern, None, 0, 0))
    found_now = search(shard, group.id, subscribed, topics.by_name.keys(), draft.step)
    news = {
        pattern: found
        for pattern, found in found_now.items()
        if pattern not in group.regexes or group.regexes[pattern].topics != found
    }
    for pattern, found in news.items():
        draft.write(stored.regex(group.id, pattern, found, 0, draft.step.wall_ms))
    return bool(news)


def _assign(draft: GroupDraft, topics: TopicsImage, assignors: tuple[str, ...]) -> None:
    """Compute all targets with the group's assignor, and write those that have changed."""
    group = draft.group
    matches = {pattern: value.topics for pattern, value in group.regexes.items()}
    members = {
        member_id: Subscriber(
            ids_of(names_of(stored_member, matches), topics), group.target_of(member_id), stored_member.instance_id
        )
        for member_id, stored_member in group.members.items()
    }
    read = {topic_id for one in members.values() for topic_id in one.topics}
    partitions = {topic_id: len(topics.by_id[topic_id].partitions) for topic_id in sorted(read)}
    for member_id, target in ASSIGNORS[assignor_of(group, assignors)](members, partitions).items():
        if target != group.target.get(member_id):
            draft.write(stored.target(group.id, member_id, target))
    draft.write(stored.assigned(group.id, group.epoch, draft.step.wall_ms))


def assignor_of(group: ConsumerGroup, assignors: tuple[str, ...]) -> str:
    """Return the available assignor that most members request, or the default."""
    wanted = Counter(one.server_assignor for one in group.members.values() if one.server_assignor in assignors)
    return wanted.most_common(1)[0][0] or "" if wanted else assignors[0]
