"""AlterPartitionReassignments (KIP-455): move partitions to other brokers, or cancel such moves.

During a reassignment a partition has its old and its new replicas. It completes when the new replicas are in the ISR
(`partition_change`), which may be at once: the old replicas are then removed, and the leader epoch is bumped.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import ControllerContext, Deciding
from pykbroker.core.metadata.election import Ids, Rules
from pykbroker.core.metadata.image import PartitionImage, TopicImage
from pykbroker.core.metadata.partition_change import ReplicaAssignment, change, without
from pykbroker.core.metadata.placement import check_replicas
from pykbroker.core.metadata.record import Record
from wire.error_codes import ErrorCode
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


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
    # A change of the assignment must not lose records, even where unclean elections are allowed.
    rules = msgspec.structs.replace(context.rules(name), unclean=False)
    if wanted.replicas is None:
        target, rules = _reverted(context, topic, index, rules)
    else:
        check_replicas(context, wanted.replicas, None)
        if not may_resize:
            _check_size(partition, wanted.replicas)
        target = _towards(partition, tuple(wanted.replicas))
    return change(context, topic, index, target, rules)


def _reverted(
    context: ControllerContext, topic: TopicImage, index: int, rules: Rules
) -> tuple[ReplicaAssignment, Rules]:
    """Return the assignment before the reassignment, and the rules for the election that follows.

    If no member of the ISR is in that assignment, the election must be unclean, and the ISR is empty until one takes
    place. Kafka 4.3 puts the first replica into the ISR, which then loses records without a trace if it is not alive.
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
    return ReplicaAssignment(replicas, ()), msgspec.structs.replace(rules, unclean=True)


def _check_size(partition: PartitionImage, replicas: Sequence[int]) -> None:
    """Raise ApiError for a change of the replication factor if the client does not allow it (KIP-860)."""
    count = len(without(partition.replicas, partition.removing))
    if count != len(replicas):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {count} to {len(replicas)}"
        )


def _towards(partition: PartitionImage, wanted: Ids) -> ReplicaAssignment:
    """Return the assignment during the reassignment to `wanted`, which may replace another reassignment.

    Replicas that the replaced reassignment adds and that are still wanted are still to be added. Kafka 4.3 forgets some
    of them, and never completes a reassignment back to the original replicas.
    """
    removing = tuple(sorted(without(partition.replicas, wanted)))
    kept = without(partition.replicas, partition.adding)
    return ReplicaAssignment((*wanted, *removing), partition.isr, tuple(sorted(without(wanted, kept))), removing)
