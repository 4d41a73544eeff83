"""Placement of the replicas of new partitions, and the records of these partitions.

Replicas are assigned round-robin to the brokers that may lead, from a random start; fenced brokers come last. The first
replica is the preferred leader. Racks are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import ControllerContext
from pykbroker.core.steps import Steps
from wire.error_codes import ErrorCode
from wire.stored.metadata_topics import PartitionRecord


def place(context: ControllerContext, partitions: int, replicas: int) -> list[list[int]]:
    """Return the replicas of each new partition.

    Raise ApiError INVALID_REPLICATION_FACTOR if there are too few brokers.
    """
    brokers = sorted(context.draft.brokers.values(), key=lambda broker: broker.id)
    active = [broker.id for broker in brokers if broker.active]
    others = [broker.id for broker in brokers if not broker.active]
    if fault := _fault(replicas, len(brokers), len(active)):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {replicas} time(s): {fault}"
        )
    start = int.from_bytes(context.randomness.randbytes(4), "big")
    return [(_from(active, start + index) + others)[:replicas] for index in range(partitions)]


def _fault(replicas: int, brokers: int, active: int) -> str | None:
    if active == 0:
        return "All brokers are currently fenced."
    if replicas > brokers:
        return (
            f"The target replication factor of {replicas} cannot be reached because only {brokers} broker(s) "
            "are registered or some brokers have all their log directories cordoned."
        )
    return None


def _from(ring: list[int], start: int) -> list[int]:
    start %= len(ring)
    return ring[start:] + ring[:start]


def check_assignment(context: ControllerContext, index: int, replicas: Sequence[int], expected: int | None) -> None:
    """Raise ApiError INVALID_REPLICA_ASSIGNMENT for an invalid manual assignment of `expected` replicas."""
    check_replicas(context, replicas, expected)
    if not any(map(context.active, replicas)):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All brokers specified in the manual partition assignment for "
            f"partition {index} are fenced or in controlled shutdown.",
        )


def check_replicas(context: ControllerContext, replicas: Sequence[int], expected: int | None) -> None:
    """Check a manual assignment like `check_assignment`, but accept one whose brokers are all fenced."""
    if fault := _replicas_fault(context, replicas, expected):
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)


def _replicas_fault(context: ControllerContext, replicas: Sequence[int], expected: int | None) -> str | None:
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    for broker_id in sorted(replicas):
        if broker_id not in context.draft.brokers:
            return f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
        if replicas.count(broker_id) > 1:
            return f"The manual partition assignment includes the broker {broker_id} more than once."
    if expected is not None and len(replicas) != expected:
        return (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
            f"not consistent with previous partitions, which have {expected} replica(s)."
        )
    return None


def partition_records(
    context: ControllerContext, topic_id: bytes, first: int, assignment: Sequence[Sequence[int]]
) -> Steps[list[PartitionRecord]]:
    """Return one record for each new partition, numbered from `first`.

    The first replica that may lead is the leader.
    """
    records = []
    for index, replicas in enumerate(assignment, first):
        isr = [replica for replica in replicas if context.active(replica)]
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[context.draft.brokers[replica].default_directory for replica in replicas],
            )
        )
        yield
    return records
