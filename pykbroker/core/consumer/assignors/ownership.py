"""The partitions that members owned before a rebalance, after conflicting claims are settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykbroker.core.topic_partition import TopicPartition


class Claim(NamedTuple):
    """The partitions that a member says it owned in a generation."""

    partitions: Sequence[TopicPartition]
    generation: int


def owners(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Return the previous owner of each partition: the member that claims it in the newest generation.

    A partition that two members claim in the same generation has no owner.
    """
    newest: dict[TopicPartition, tuple[int, str | None]] = {}
    for member, (partitions, generation) in sorted(claims.items()):
        for partition in dict.fromkeys(partitions):
            other, _ = newest.get(partition, (generation - 1, None))
            if generation >= other:
                newest[partition] = generation, member if generation > other else None
    return {partition: member for partition, (_, member) in newest.items() if member is not None}
