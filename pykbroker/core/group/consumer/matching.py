"""The search for the topics of a group's regular expressions, in short parts that do not block the event loop.

The heartbeat that needs the search runs its first part, which is enough for most groups. Timers that are due at once
run the other parts. Members learn the results in their next heartbeats, as in Kafka, which always searches in the
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
    """Run one part of the search. Return the topics of each pattern that has been matched against all names."""
    if not patterns:
        shard.searches.pop(group_id, None)
        return {}
    known = shard.searches.get(group_id)
    shows = step.shows or (None if known is None else known.shows)
    if known is None or known.names != names or is_stale(shard, group_id, step):
        known = shard.searches[group_id] = TopicSearch(names, step.now_ms, shows)
        # The timer also drops the search if the group is never stored.
        shard.timers.set(Due(MATCHING, group_id), step.now_ms)
    known.shows = shows
    known.look_for(patterns)
    known.advance()
    if not known.is_finished:
        shard.timers.set(Due(MATCHING, group_id), step.now_ms)
        group = shard.find_consumer(group_id)
        if group is not None:
            group.seen = None  # so that the next heartbeat reads the results
    return known.found


def is_stale(shard: Shard, group_id: str, step: Step) -> bool:
    """Whether a member's rights may have changed since the search: it is repeated at intervals, as in Kafka.

    Without an authorizer, the search depends on the names of topics alone.
    """
    if step.shows is None:
        return False
    known = shard.searches.get(group_id)
    interval_ms = shard.settings.group_consumer_regex_refresh_interval_ms
    return known is not None and known.is_finished and step.now_ms - known.began_ms >= interval_ms


def is_finished(shard: Shard, group_id: str) -> bool:
    """Whether the group's search has finished."""
    return group_id not in shard.searches or shard.searches[group_id].is_finished


def matching_due(shard: Shard, due: Due, step: Step) -> None:
    """Run the next part of the search."""
    if shard.find_consumer(due.group_id) is None:
        shard.searches.pop(due.group_id, None)
    elif not is_finished(shard, due.group_id):
        shard.searches[due.group_id].advance()
        if not is_finished(shard, due.group_id):
            shard.timers.set(due, step.now_ms)
