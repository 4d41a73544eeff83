"""The last step of a Produce: wait for the flush and for followers, and make every result final."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import trio

from pykbroker.core.errors import ApiError, KeysRequired
from pykbroker.replica.partition.partition import Partition
from pykbroker.server.handler import NO_RESPONSE, CloseConnection, RequestContext
from pykbroker.server.leader_hints import WRONG_LEADER, LeaderHints
from wire.declare import Response
from wire.error_codes import ErrorCode
from wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from wire.sentinels import NO_LEADER_EPOCH, NO_OFFSET

LEADER_VERSION_FIRST = 10
Failure = tuple[str, PartitionProduceResponse]
"""The name of a topic, and the result of one of its partitions that failed."""


class Unsettled(msgspec.Struct):
    """A partition's result that is not final. `offset` is the high watermark that it waits for, or 0.

    `leader_epoch` is the epoch in which the batch was appended, or -1 before.
    """

    partition: Partition
    result: PartitionProduceResponse
    offset: int = 0
    leader_epoch: int = NO_LEADER_EPOCH

    async def commit(self) -> None:
        """Wait until the high watermark reaches `offset`."""
        await self.partition.wait_committed(self.offset, self.leader_epoch)

    def check(self) -> None:
        """Turn the result into an error if the high watermark has not reached `offset`, or if the leadership ended."""
        if not self.result.error_code:
            if self.partition.leader_epoch != self.leader_epoch:
                self.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif self.partition.high_watermark < self.offset:
                self.result.error_code = ErrorCode.REQUEST_TIMED_OUT

    async def attempt(self, step: Callable[[], Awaitable[None]]) -> None:
        """Await a step for a partition that has not failed; an error becomes the partition's result."""
        if not self.result.error_code:
            try:
                await step()
            except ApiError as error:
                refused(self.result, error, self.partition)


async def settle(request: ProduceRequest, response: ProduceResponse, unsettled: list[Unsettled]) -> Response:
    """Flush the logs that are due, and wait for followers up to the request's timeout."""
    forget_records(request)
    for each in unsettled:  # no timeout: nothing is acknowledged before it is flushed
        await each.attempt(each.partition.flush_if_due)
    with trio.move_on_after(max(0, request.timeout_ms) / 1000):
        for each in unsettled:
            await each.attempt(each.commit)
    for each in unsettled:
        each.check()
    return response if request.acks else unanswered(response)


def forget_records(request: ProduceRequest) -> None:
    """Release the request's records, which are in the log and need no memory while the response waits."""
    for data in request.topic_data:
        for part in data.partition_data:
            part.records = None


def name_leaders(
    hints: LeaderHints, context: RequestContext, response: ProduceResponse, failures: list[Failure]
) -> None:
    """Add the current leaders of the partitions that this broker does not lead, and their endpoints (KIP-951)."""
    if context.version < LEADER_VERSION_FIRST:
        return
    endpoints = {endpoint.node_id: endpoint for endpoint in response.node_endpoints}
    for topic, result in failures:
        if result.error_code not in WRONG_LEADER:
            continue
        hint = hints.find(topic, result.index, context.session)
        if hint is not None:
            result.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
            if hint.endpoint is not None:
                endpoints[hint.leader_id] = NodeEndpoint(*hint.endpoint)
    response.node_endpoints = list(endpoints.values())


def unanswered(response: ProduceResponse) -> Response:
    """Return the result of acks=0. An error closes the connection, because no response can report it."""
    for topic in response.responses:
        for result in topic.partition_responses:
            if result.error_code:
                name, message = ErrorCode(result.error_code).name, result.error_message or ""
                raise CloseConnection(f"Produce with acks=0 failed: {name} {message}")
    return NO_RESPONSE


def refused(result: PartitionProduceResponse, error: ApiError, partition: Partition) -> PartitionProduceResponse:
    """Fill in the result of a refused batch, with the record errors in Kafka's wording."""
    result.error_code, result.base_offset, result.error_message = error.code, NO_OFFSET, error.message
    if isinstance(error, KeysRequired) and partition.log is not None:
        message = (
            f"Compacted topic cannot accept message without key in topic partition {partition.topic}-{partition.index}"
        )
        first = ", ".join(f"RecordError(batchIndex={index}, message='{message}')" for index in error.indexes[:3])
        result.error_message = (
            f"One or more records have been rejected due to {error.count} record errors in total, "
            f"and only showing the first three errors at most: [{first}]"
        )
        result.record_errors = [BatchIndexAndErrorMessage(index, message) for index in error.indexes]
        result.log_start_offset = partition.log.log_start_offset
    return result


def failed(index: int, error: ApiError) -> PartitionProduceResponse:
    """Return an error result; its offsets are -1."""
    return PartitionProduceResponse(index, error.code, NO_OFFSET, error_message=error.message)
