"""The search for the topics of a group's regular expressions, in shares so that the machine is never busy for long.

The first share is part of the heartbeat that needs it, and suffices for most groups. A timer that is due at once runs
the next shares. Members learn the results in their next heartbeats, as in Kafka, which always searches in the
background.
"""

from __future__ import annotations

from collections.abc import Collection, KeysView, Mapping

from pykbroker.core.group.consumer.search import TopicSearch
from pykbroker.core.group.shard import Due, Shard
from pykbroker.core.group.step import Step

MATCHING = "matching"


def search(
    shard: Shard, group_id: str, patterns: Collection[str], names: KeysView[str], step: Step
) -> Mapping[str, list[str]]:
    """Search for one share. Return the topics of each pattern that has been matched against all names."""
    if not patterns:
        shard.searches.pop(group_id, None)
        return {}
    known = shard.searches.get(group_id)
    if known is None or known.names != names:
        known = shard.searches[group_id] = TopicSearch(names)
        shard.timers.set(
            Due(MATCHING, group_id), step.now_ms
        )  # its timer also drops the search of a group that is never stored
    known.look_for(patterns)
    known.advance()
    if not known.is_finished:
        shard.timers.set(Due(MATCHING, group_id), step.now_ms)
        group = shard.find_consumer(group_id)
        if group is not None:
            group.seen = None  # makes the next heartbeat read the results
    return known.found


def is_finished(shard: Shard, group_id: str) -> bool:
    """Whether the group's search has finished."""
    return group_id not in shard.searches or shard.searches[group_id].is_finished


def matching_due(shard: Shard, due: Due, step: Step) -> None:
    """Search for another share."""
    if shard.find_consumer(due.group_id) is None:
        shard.searches.pop(due.group_id, None)
    elif not is_finished(shard, due.group_id):
        shard.searches[due.group_id].advance()
        if not is_finished(shard, due.group_id):
            shard.timers.set(due, step.now_ms)
