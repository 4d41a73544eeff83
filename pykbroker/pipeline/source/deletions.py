"""The check whether partitions still exist, made while a request about them gets no answer.

Brokers learn of a new topic at different times, so a client waits for a topic that no broker knows. One broker with old
metadata does not prove that a partition is deleted: several times in a row, more than half of all brokers must answer,
and none of them may know the partition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import trio

from pykbroker.consumer.shell import ConsumerShell
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.metadata import MetadataResponseTopic

T = TypeVar("T")
LOOK_S = 1.0
"""The seconds without an answer after which the brokers are asked, and those in which they have to answer."""
ABSENCES_ENOUGH = 3
"""The rounds in a row in which no broker knows a deleted partition."""
Descriptions = Sequence[MetadataResponseTopic]
"""The answer of one broker about topics."""


def unknown_partitions(
    partitions: Collection[TopicPartition], answers: Collection[Descriptions], brokers: int
) -> frozenset[TopicPartition]:
    """Return the partitions that no broker knows, or none of them if half of the brokers or less have answered."""
    if len(answers) * 2 <= brokers:
        return frozenset()
    return frozenset(each for each in partitions if not any(_may_have(answer, each) for answer in answers))


def _may_have(answer: Descriptions, partition: TopicPartition) -> bool:
    """Whether a broker knows a partition, or says nothing about it."""
    for topic in answer:
        if topic.name == partition.topic:
            if topic.error_code:
                return bool(topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return any(each.partition_index == partition.partition for each in topic.partitions)
    return True


class AbsenceCount:
    """The rounds in a row in which no broker has known a partition, by partition."""

    def __init__(self, shell: ConsumerShell) -> None:
        self._shell = shell
        self._rounds: Mapping[TopicPartition, int] = {}

    async def deleted(self, partitions: Collection[TopicPartition], timeout_s: float) -> frozenset[TopicPartition]:
        """Ask all brokers once more. Return the partitions that count as deleted."""
        topics = sorted({each.topic for each in partitions})
        answers = await self._shell.lookups.topics_of_each(topics, timeout_s)
        unknown = unknown_partitions(partitions, answers, len(self._shell.topics.cluster.brokers))
        self._rounds = {each: self._rounds.get(each, 0) + 1 for each in unknown}
        return frozenset(each for each, rounds in self._rounds.items() if rounds >= ABSENCES_ENOUGH)


async def unless_deleted(
    shell: ConsumerShell, call: Callable[[], Awaitable[T]], partitions: Collection[TopicPartition]
) -> T | frozenset[TopicPartition]:
    """Return the result of a call about partitions, or the partitions that are deleted while it waits.

    Raise its error.
    """
    results: list[T | frozenset[TopicPartition]] = []
    errors: list[Exception] = []
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            try:
                results.append(await call())
            except Exception as error:  # noqa: BLE001 - it is raised below, outside of the nursery
                errors.append(error)
            nursery.cancel_scope.cancel()

        nursery.start_soon(run)
        count = AbsenceCount(shell)
        while True:
            await trio.sleep(LOOK_S)
            if deleted := await count.deleted(partitions, LOOK_S):
                results.append(deleted)
                nursery.cancel_scope.cancel()
    for error in errors:
        raise error
    return results[0]


async def of_existing(
    shell: ConsumerShell, call: Callable[[Any], Awaitable[Mapping[TopicPartition, T]]], partitions: Any
) -> tuple[dict[TopicPartition, T], frozenset[TopicPartition]]:
    """Return what a call finds for the partitions that exist, and the partitions that are deleted meanwhile.

    `partitions` is a collection, or a mapping of partitions to more arguments. Raise the error of the call.
    """
    wanted, gone = partitions, frozenset[TopicPartition]()
    while wanted:
        found = await unless_deleted(shell, partial(call, wanted), wanted)
        if not isinstance(found, frozenset):
            return dict(found), gone
        gone |= found
        left = [each for each in wanted if each not in gone]
        wanted = {each: wanted[each] for each in left} if isinstance(wanted, Mapping) else left
    return {}, gone
