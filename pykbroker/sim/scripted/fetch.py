"""The answers of a scripted node to Fetch, with fetch sessions."""

from __future__ import annotations

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.session import FetchedPartition, SessionPartition
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.scripted.leadership import HINTED, ServingNode, log_of
from wire.error_codes import ErrorCode
from wire.header import RequestHeader
from wire.isolation import READ_COMMITTED
from wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from wire.sentinels import NO_NODE, NO_OFFSET

BY_ID_VERSION_MIN = 13
"""The first version of Fetch that identifies topics by id."""


async def answer_fetch(node: ServingNode, header: RequestHeader, request: FetchRequest) -> FetchResponse:
    """Return records. Wait for `max_wait_ms` at most if there are less than `min_bytes`."""
    now_ms = int(trio.current_time() * 1000)
    try:
        by_id = header.version >= BY_ID_VERSION_MIN
        fetching = node.sessions.begin(request, by_id=by_id, privileged=False, now_ms=now_ms)
    except ApiError as error:
        return FetchResponse(error_code=error.code)
    found = await _fetch(node, request, list(fetching.partitions.values()))
    response = node.sessions.open(fetching, found, now_ms) if fetching.opening else fetching.answer(found)
    if any(data.error_code in HINTED for _, data in found):
        response.node_endpoints = [NodeEndpoint(node_id, *address) for node_id, address in node.state.addresses.items()]
    return response


async def _fetch(
    node: ServingNode, request: FetchRequest, partitions: list[SessionPartition]
) -> list[FetchedPartition]:
    """Read the partitions until the response is large enough, or a partition has something else to report."""
    with trio.move_on_after(request.max_wait_ms / 1000):
        while True:
            found = [(each, _read(node, each, request)) for each in partitions]
            size = sum(len(data.records) for _, data in found if isinstance(data.records, bytes))
            if size >= request.min_bytes or any(map(_ends_wait, found)):
                return found
            await node.state.changed.wait()
    return [(each, _read(node, each, request)) for each in partitions]


def _ends_wait(fetched: FetchedPartition) -> bool:
    _, data = fetched
    return bool(data.error_code or data.preferred_read_replica >= 0 or data.diverging_epoch.end_offset >= 0)


def _read(node: ServingNode, wanted: SessionPartition, request: FetchRequest) -> PartitionData:
    partition = node.state.named(wanted.topic, wanted.topic_id, wanted.asked.partition)
    return _fetch_partition(node, partition, wanted, request)


def _fetch_partition(
    node: ServingNode, partition: TopicPartition | None, wanted: SessionPartition, request: FetchRequest
) -> PartitionData:
    """Return the records of one partition, an error, or the preferred read replica of the client's rack (KIP-392)."""
    asked, rack, committed = wanted.asked, request.rack_id, request.isolation_level == READ_COMMITTED
    try:
        log = log_of(node, partition, wanted.topic_id, asked.current_leader_epoch, follower=bool(rack))
        leader, preferred = node.state.leader_and_epoch(partition)[0], node.state.preferred_replica(partition, rack)
        place = (log.end_offset, log.last_stable_offset, log.start_offset)
        if leader == node.node_id and preferred not in (NO_NODE, node.node_id):
            return PartitionData(asked.partition, 0, *place, preferred_read_replica=preferred)
        if asked.last_fetched_epoch >= 0:
            end = log.end_of_epoch(asked.last_fetched_epoch)
            if end.epoch < asked.last_fetched_epoch or end.offset < asked.fetch_offset:
                diverging = EpochEndOffset(end.epoch, end.offset)
                return PartitionData(asked.partition, 0, *place, diverging_epoch=diverging)
        if not log.start_offset <= asked.fetch_offset <= log.end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        end_offset = log.last_stable_offset if committed else log.end_offset
        found = log.read(asked.fetch_offset, end_offset, asked.partition_max_bytes)
        aborted = [
            AbortedTransaction(each.producer_id, each.first_offset) for each in log.aborted_since(asked.fetch_offset)
        ]
        return PartitionData(
            asked.partition, 0, *place, aborted_transactions=aborted if committed else None, records=found
        )
    except ApiError as error:
        current = LeaderIdAndEpoch()
        if error.code in HINTED:
            current = LeaderIdAndEpoch(*node.state.leader_and_epoch(partition))
        return PartitionData(asked.partition, error.code, NO_OFFSET, current_leader=current)
