"""The new replicas of partitions, as `pykbroker topics reassign` plans them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from pykbroker.core.topic_partition import TopicPartition

ReplicaIds = tuple[int, ...]
FILE_FORM = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}'
ANY_DIRECTORY = "any"


class PlannedReplicas(NamedTuple):
    """A partition, its replicas now, and those that it gets."""

    partition: TopicPartition
    replicas: ReplicaIds
    new: ReplicaIds


ReassignmentPlan = list[PlannedReplicas]


class Takers(NamedTuple):
    """The brokers that may take replicas, with their racks, and the number of replicas on each broker."""

    racks: Mapping[int, str | None]
    loads: Counter[int]


def brokers_of_option(text: str) -> ReplicaIds:
    """Parse the broker ids of an option, such as 1,2,3."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) <= 10 for word in words):
        raise click.BadParameter(f"{text!r} is not a list of broker ids such as 1,2,3")
    found = tuple(map(int, words))
    if doubled := [broker for broker, count in Counter(found).items() if count > 1]:
        raise click.BadParameter(f"{text!r} names broker {doubled[0]} twice: a broker has one replica of a partition")
    return found


def spread(
    current: Mapping[TopicPartition, ReplicaIds], brokers: ReplicaIds, exact: Collection[TopicPartition]
) -> ReassignmentPlan:
    """Return the plan that gives each partition a replica on each of these brokers.

    The partitions in `exact` take the brokers in this order. All others begin with the next broker for each partition,
    so that the leaders of a topic are spread.
    """
    plan = []
    for partition, replicas in sorted(current.items()):
        start = 0 if partition in exact else partition.partition % len(brokers)
        plan.append(PlannedReplicas(partition, replicas, brokers[start:] + brokers[:start]))
    return plan


def moved_away(
    current: Mapping[TopicPartition, ReplicaIds], leaving: Collection[int], takers: Takers
) -> ReassignmentPlan:
    """Return the plan that moves the replicas of the brokers `leaving` to others.

    A broker in a rack without a replica of the partition is preferred, then the one with the fewest replicas.
    ValueError: every broker has a replica of a partition already.
    """
    loads, plan = Counter(takers.loads), []
    for partition, replicas in sorted(current.items()):
        new = list(replicas)
        for place, broker in enumerate(replicas):
            if broker in leaving:
                new[place] = taker(partition, broker, new, leaving, takers.racks, loads)
                loads[new[place]] += 1
        plan.append(PlannedReplicas(partition, replicas, tuple(new)))
    return plan


def taker(
    partition: TopicPartition,
    broker: int,
    replicas: Sequence[int],
    leaving: Collection[int],
    racks: Mapping[int, str | None],
    loads: Mapping[int, int],
) -> int:
    """Return the broker that takes over a replica. ValueError: no broker can."""
    free = [one for one in racks if one not in replicas and one not in leaving]
    if not free:
        raise ValueError(
            f"{partition}: no unfenced broker can take over the replica of broker {broker}, since all others have one:"
            " start another broker, or choose fewer replicas with --to"
        )
    used = {racks.get(one) for one in replicas if one != broker}
    return min(free, key=lambda one: (racks[one] is not None and racks[one] in used, loads.get(one, 0), one))


def file_plan(text: str, name: str) -> dict[TopicPartition, ReplicaIds]:
    """Return the new replicas in a file of Kafka's `kafka-reassign-partitions`.

    click.BadParameter: the file has another form, names a partition twice, or names log directories.
    """
    try:
        document = json.loads(text)
        entries = [entry_of(entry, name) for entry in document["partitions"]]
    except (ValueError, KeyError, TypeError):
        raise click.BadParameter(f"{name} is no reassignment in Kafka's form, such as {FILE_FORM}") from None
    if not entries:
        raise click.BadParameter(f"{name} has no partition")
    found: dict[TopicPartition, ReplicaIds] = {}
    for partition, replicas in entries:
        if partition in found:
            raise click.BadParameter(f"{name} names {partition} twice")
        found[partition] = replicas
    return found


def entry_of(entry: Any, name: str) -> tuple[TopicPartition, ReplicaIds]:
    """Return the partition and the replicas of an entry. ValueError, KeyError or TypeError: it has another form."""
    topic, index, replicas = entry["topic"], entry["partition"], tuple(entry["replicas"])
    numbers: Iterable[Any] = (index, *replicas)
    if not isinstance(topic, str) or not all(isinstance(one, int) and not isinstance(one, bool) for one in numbers):
        raise ValueError
    if any(directory != ANY_DIRECTORY for directory in entry.get("log_dirs") or ()):
        raise click.BadParameter(
            f"{name} names log_dirs for {topic}-{index}: leave them out here, and move replicas between directories"
            " with kafka-reassign-partitions.sh"
        )
    return TopicPartition(topic, index), replicas


def check_leaving(leaving: Iterable[int], known: Collection[int], loads: Collection[int]) -> None:
    """ValueError: one of the brokers that replicas move away from is not registered, and has no replica either."""
    for broker in leaving:
        if broker not in known and broker not in loads:
            there = ", ".join(map(str, sorted(known)))
            raise ValueError(f"--away-from {broker}: there is no broker {broker}: the cluster has {there}")


def check_brokers(plan: ReassignmentPlan, known: Collection[int]) -> None:
    """ValueError: the plan names a broker that is not registered."""
    for each in plan:
        for broker in each.new:
            if broker not in known:
                there = ", ".join(map(str, sorted(known)))
                raise ValueError(f"{each.partition}: there is no broker {broker}: the cluster has {there}")
