"""A frozen snapshot of the partitions of a broker."""

from __future__ import annotations

import msgspec

from pykbroker.core.steps import Steps
from pykbroker.replica.replicas import Replicas
from pykbroker.world.portions import portions

FOLLOWED_A_STEP = 64
OFFLINE_A_STEP = 256


class ReplicaStatistics(msgspec.Struct, frozen=True):
    """The numbers of partitions that this broker has, leads, and cannot serve, and the state of their replication.

    All partitions from `under_replicated` to `reassigning` are led by this broker. `max_lag` is the largest number of
    offsets that a followed partition is behind its leader's high watermark.
    """

    partitions: int
    leaders: int
    offline: int
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    reassigning: int = 0
    isr_expansions: int = 0
    isr_shrinks: int = 0
    isr_refusals: int = 0
    max_lag: int = 0


def replica_statistics(replicas: Replicas) -> Steps[ReplicaStatistics]:
    """Return the current statistics. They are counted over all partitions in steps."""
    partitions = leaders = offline = under_replicated = under_min_isr = at_min_isr = reassigning = 0
    for topic in replicas.topics():
        for partition in list(topic.partitions.values()):
            is_online, leading = partition.is_online, partition.leading
            partitions += 1
            offline += not is_online
            if is_online and leading is not None:
                leaders += 1
                under_replicated += leading.is_under_replicated
                under_min_isr += leading.is_under_min_isr
                at_min_isr += leading.is_at_min_isr
                reassigning += leading.is_reassigning
            yield
    broker = replicas.broker
    return ReplicaStatistics(
        partitions,
        leaders,
        offline,
        under_replicated,
        under_min_isr,
        at_min_isr,
        reassigning,
        broker.isr_expansions,
        broker.isr_shrinks,
        broker.isr_refusals,
        (yield from _max_lag(replicas)),
    )


def offline_partitions(replicas: Replicas) -> Steps[int]:
    """Return the number of partitions of this broker that are offline."""
    offline = 0
    for few in portions((one for topic in replicas.topics() for one in topic.partitions.values()), OFFLINE_A_STEP):
        offline += sum(not partition.is_online for partition in few)
        yield
    return offline


def _max_lag(replicas: Replicas) -> Steps[int]:
    largest = 0
    for place, followed in enumerate(replicas.fetchers.followed(), 1):
        largest = max(largest, followed.lag)
        if place % FOLLOWED_A_STEP == 0:
            yield
    return largest
