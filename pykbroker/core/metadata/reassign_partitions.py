"""AlterPartitionReassignments (KIP-455): move partitions to other brokers, or cancel such moves.

During a reassignment a partition has its old and its new replicas. The reassignment completes when all target replicas
are in the ISR: the other replicas are then removed, and the leader epoch is bumped. It may complete at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import ControllerContext, Deciding
from pykbroker.core.metadata.election import Ids, Rules, change_record, elect
from pykbroker.core.metadata.ids import UNASSIGNED
from pykbroker.core.metadata.image import PartitionImage, TopicImage
from pykbroker.core.metadata.placement import check_replicas
from pykbroker.core.metadata.record import Record
from pykbroker.core.metadata.replay import NO_LEADER_CHANGE
from wire.error_codes import ErrorCode
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from wire.stored.metadata_topics import PartitionChangeRecord


class ReplicaAssignment(msgspec.Struct, frozen=True):
    """The replicas of a partition, and those that a reassignment adds and removes."""

    replicas: Ids
    isr: Ids
    adding: Ids = ()
    removing: Ids = ()


def reassign_partitions(context: ControllerContext, request: AlterPartitionReassignmentsRequest) -> Deciding:
    """Return the metadata records and the response. Each partition has its own result."""
    records: list[Record] = []
    may_resize = request.allow_replication_factor_change
    responses = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            answer = ReassignablePartitionResponse(wanted.partition_index, ErrorCode.NONE, None)
            try:
                record = _alter(context, topic.name, wanted, may_resize)
                records += [record] if record is not None else []
            except ApiError as error:
                answer.error_code, answer.error_message = error.code, error.message
            partitions.append(answer)
            yield
        responses.append(ReassignableTopicResponse(topic.name, partitions))
    return records, AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_resize, error_message=None, responses=responses
    )


def _alter(context: ControllerContext, name: str, wanted: ReassignablePartition, may_resize: bool) -> Record | None:
    """Return the record of the change, or None if nothing changes."""
    topic, index = context.draft.names.get(name), wanted.partition_index
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(index)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    rules = msgspec.structs.replace(context.rules(name), unclean=False)
    if wanted.replicas is None:
        target, rules = _reverted(context, topic, index, rules)
    else:
        check_replicas(context, wanted.replicas, None)
        if not may_resize:
            _check_size(partition, wanted.replicas)
        target = _completed(_towards(partition, tuple(wanted.replicas)))
    return _change(context, topic, index, target, rules)


def _reverted(
    context: ControllerContext, topic: TopicImage, index: int, rules: Rules
) -> tuple[ReplicaAssignment, Rules]:
    """Return the assignment before the reassignment, and the rules for the election that follows.

    If no member of the ISR is in that assignment, the election must be unclean.
    """
    partition = topic.partitions[index]
    if not (partition.adding or partition.removing):
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas, isr = without(partition.replicas, partition.adding), without(partition.isr, partition.adding)
    if isr:
        return ReplicaAssignment(replicas, isr), rules
    if not context.rules(topic.name).unclean:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{index} because it would require an "
            "unclean leader election.",
        )
    return ReplicaAssignment(replicas, replicas[:1]), msgspec.structs.replace(rules, unclean=True)


def _check_size(partition: PartitionImage, replicas: Sequence[int]) -> None:
    """Raise ApiError for a change of the replication factor if the client does not allow it (KIP-860)."""
    count = len(without(partition.replicas, partition.removing))
    if count != len(replicas):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {count} to {len(replicas)}"
        )


def _towards(partition: PartitionImage, wanted: Ids) -> ReplicaAssignment:
    """Return the assignment during the reassignment to `wanted`, which may replace another reassignment."""
    removing = tuple(sorted(without(partition.replicas, wanted)))
    adding = tuple(sorted(without(wanted, partition.replicas)))
    return ReplicaAssignment(
        (*wanted, *removing), partition.isr, adding or partition.adding, removing or partition.removing
    )


def _completed(target: ReplicaAssignment) -> ReplicaAssignment:
    """Return the final assignment if all target replicas are in the ISR, otherwise `target`."""
    replicas, isr = without(target.replicas, target.removing), without(target.isr, target.removing)
    if (target.adding or target.removing) and isr and not without(replicas, isr):
        return ReplicaAssignment(replicas, isr)
    return target


def _change(
    context: ControllerContext, topic: TopicImage, index: int, target: ReplicaAssignment, rules: Rules
) -> Record | None:
    old = topic.partitions[index]
    gone = without(old.replicas, target.replicas)
    moved = msgspec.structs.replace(
        old, replicas=target.replicas, isr=without(old.isr, gone), elr=without(old.elr, gone)
    )
    unchanged = PartitionChangeRecord(partition_id=index, topic_id=topic.id)
    seats = elect(moved, target.isr, context.active, rules)
    record = change_record(topic.id, index, old, seats) or copy(unchanged)
    if gone and record.leader == NO_LEADER_CHANGE:
        record.leader = old.leader
    if target.replicas != old.replicas:
        record.replicas = list(target.replicas)
        record.directories = [_directory(context, old, replica) for replica in target.replicas]
    if target.adding != old.adding:
        record.adding_replicas = list(target.adding)
    if target.removing != old.removing:
        record.removing_replicas = list(target.removing)
    return None if record == unchanged else record


def _directory(context: ControllerContext, partition: PartitionImage, replica: int) -> bytes:
    if replica in partition.replicas:
        return partition.directory(replica)
    broker = context.draft.brokers.get(replica)
    return broker.default_directory if broker is not None else UNASSIGNED


def without(ids: Sequence[int], removed: Sequence[int]) -> Ids:
    """Return the ids without the removed ones."""
    return tuple(one for one in ids if one not in removed)
