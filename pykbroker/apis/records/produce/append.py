"""The second step of a Produce: append one batch to one partition, or a large request in pieces."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator

from pykbroker.apis.records.produce.settle import Unsettled, refused, unanswered
from pykbroker.core.errors import ApiError
from pykbroker.core.log.verification import Verification
from pykbroker.replica.partition.partition import Partition
from pykbroker.server.handler import Answer, Later
from wire.declare import Buffer, Response
from wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceData

AT_ONCE_MAX = 64
"""The number of partitions that a large request appends to in one step of the event loop."""


def append(
    partition: Partition,
    data: Buffer,
    now_ms: int,
    verification: Verification | None,
    acks_all: bool,
    unsettled: list[Unsettled],
) -> PartitionProduceResponse:
    """Append one partition's batch and return its result; a result that is not final is added to `unsettled`."""
    try:
        appended = partition.append(data, now_ms, verification, acks_all)
    except ApiError as error:
        partition.traffic.refuse_append(error.code)
        return refused(PartitionProduceResponse(partition.index), error, partition)
    if appended is None:
        result = PartitionProduceResponse(partition.index)
        unsettled.append(Unopened(partition, result, data=data, verification=verification))
        return result
    log = partition.log
    assert log is not None
    result = PartitionProduceResponse(
        partition.index, 0, appended.base_offset, appended.log_append_time_ms, log.state.log_start_offset
    )
    end_offset = appended.last_offset + 1
    if not partition.may_acknowledge(end_offset, acks_all):
        unsettled.append(Unsettled(partition, result, end_offset if acks_all else 0, partition.leader_epoch))
    return result


class Unopened(Unsettled):
    """A result whose batch is not yet appended: reading its records would take too long on the event loop."""

    data: Buffer = b""
    verification: Verification | None = None

    async def open(self, now_ms: int, acks_all: bool) -> None:
        """Read the records off the event loop and append the batch. An error becomes the result."""
        partition, result = self.partition, self.result
        try:
            appended = await partition.append_off_loop(self.data, now_ms, self.verification, acks_all)
            self.data, self.offset = b"", appended.last_offset + 1 if acks_all else 0
            self.leader_epoch = partition.leader_epoch
            result.base_offset, result.log_append_time_ms = appended.base_offset, appended.log_append_time_ms
            result.log_start_offset = partition.require_leader().state.log_start_offset
        except ApiError as error:
            partition.traffic.refuse_append(error.code)
            refused(result, error, partition)


def pieces(request: ProduceRequest) -> Iterator[ProduceRequest]:
    """Yield the request in pieces of at most `AT_ONCE_MAX` partitions of one topic, each with a response of its own."""
    for data in request.topic_data:
        for at in range(0, max(1, len(data.partition_data)), AT_ONCE_MAX):
            few = TopicProduceData(data.name, data.topic_id, data.partition_data[at : at + AT_ONCE_MAX])
            yield ProduceRequest(None, request.acks or 1, request.timeout_ms, [few])


async def ended(later: Later) -> Answer:
    """Wait until the coroutine of an answer has ended."""
    assert isinstance(later.work, Coroutine)
    return await later.work


async def joined(request: ProduceRequest, answers: list[Answer]) -> Response:
    """Wait for the responses to all pieces of a large request, and return them as one response."""
    response = ProduceResponse([])
    for answer in answers:
        part = await ended(answer) if isinstance(answer, Later) else answer
        assert isinstance(part, ProduceResponse)
        response.node_endpoints += part.node_endpoints
        for topic in part.responses:
            last = response.responses[-1] if response.responses else None
            if last is not None and (last.name, last.topic_id) == (topic.name, topic.topic_id):
                last.partition_responses += topic.partition_responses
            else:
                response.responses.append(topic)
    return response if request.acks else unanswered(response)
