"""ElectLeaders (KIP-183, KIP-460): leader elections that a client requests.

A preferred election makes the first replica the leader. An unclean election makes any live replica the leader of a
partition without one, even if records are lost.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial

import msgspec

from pykbroker.core.errors import ApiError, default_error
from pykbroker.core.metadata.context import ControllerContext, Deciding
from pykbroker.core.metadata.image import TopicImage
from pykbroker.core.metadata.partition_change import ReplicaAssignment, change
from pykbroker.core.metadata.record import Record
from pykbroker.core.steps import each
from wire.error_codes import ErrorCode
from wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from wire.sentinels import NO_LEADER


class Election(IntEnum):
    """The election type; the numbers are those of the protocol."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(context: ControllerContext, request: ElectLeadersRequest) -> Deciding:
    """Return the metadata records and the response. Each partition has its own result.

    If the request is for all partitions, those that need no election are left out.
    """
    try:
        election = Election(request.election_type)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}") from None
    records: list[Record] = []
    if request.topic_partitions is None:
        requested = [(name, list(topic.partitions)) for name, topic in context.draft.names.items()]
    else:
        requested = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    results = []
    for name, indexes in requested:
        partitions = yield from each(partial(_elect, context, election, records, name), indexes)
        if request.topic_partitions is None:
            partitions = [one for one in partitions if one.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(name, partitions))
    return records, ElectLeadersResponse(replica_election_results=results)


def _elect(
    context: ControllerContext, election: Election, records: list[Record], name: str, index: int
) -> PartitionResult:
    try:
        topic = context.draft.names.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        records.append(_change(context, election, topic, index))
    except ApiError as error:
        return PartitionResult(index, error.code, error.message)
    return PartitionResult(index, ErrorCode.NONE, None)


def _change(context: ControllerContext, election: Election, topic: TopicImage, index: int) -> Record:
    """Return the record of a new leader. Raise ApiError if no replica can be elected or no election is needed."""
    partition = topic.partitions.get(index)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic.name}-{index}")
    unclean = election is Election.UNCLEAN
    if partition.leader != NO_LEADER if unclean else partition.leader == partition.replicas[0]:
        raise default_error(ErrorCode.ELECTION_NOT_NEEDED)
    rules = msgspec.structs.replace(context.rules(topic.name), unclean=unclean)
    record = change(context, topic, index, ReplicaAssignment.of(partition), rules, prefer_first=not unclean)
    if record is None and unclean:
        raise default_error(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    if record is None:
        raise default_error(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    return record
