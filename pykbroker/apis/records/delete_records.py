"""DeleteRecords (21), v0-2: advance the log start offset of partitions; offset -1 means the high watermark.

v2 flexible   The low watermark in the response is the lowest log start offset of the live replicas. The timeout limits
the wait for followers. Clients stop seeing the records at once; the next retention pass deletes whole segments from the
disk.
"""

from __future__ import annotations

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.names import is_internal
from pykbroker.core.security.rights import DELETE_RECORDS_TOPIC, require
from pykbroker.core.steps import Steps
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.leading.deletion import Deletion
from pykbroker.replica.replicas import Replicas
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext
from pykbroker.world.portions import portions
from wire.error_codes import ErrorCode
from wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from wire.sentinels import NO_OFFSET


class DeleteRecords(ApiHandler, frozen=True):
    """A handler that answers a repeated partition once, with the last of its offsets."""

    replicas: Replicas

    def __call__(self, context: RequestContext, request: DeleteRecordsRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)

    def _steps(self, context: RequestContext, request: DeleteRecordsRequest) -> Steps[Answer]:
        response, waiting = DeleteRecordsResponse(), []
        for name, offsets in (yield from by_topic(request)).items():
            answers = []
            for index, offset in offsets.items():
                answer = DeleteRecordsPartitionResult(index, NO_OFFSET)
                try:
                    deletion = self._delete(context, TopicPartition(name, index), offset)
                    answer.low_watermark = deletion.low_watermark
                    if answer.low_watermark < deletion.offset:
                        waiting.append((deletion, answer))
                except ApiError as error:
                    answer.error_code = error.code
                answers.append(answer)
                yield
            response.topics.append(DeleteRecordsTopicResult(name, answers))
        if waiting:
            return Later(_finish(response, waiting, request.timeout_ms), holds_connection=False)
        return response

    def _delete(self, context: RequestContext, key: TopicPartition, offset: int) -> Deletion:
        """Delete the records before `offset` on this broker."""
        require(context, DELETE_RECORDS_TOPIC, key.topic)
        partition = self.replicas.partition(key)
        if is_internal(key.topic):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        log = partition.require_leader()
        if "delete" not in log.config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        return Deletion(partition, offset)


async def _finish(
    response: DeleteRecordsResponse, waiting: list[tuple[Deletion, DeleteRecordsPartitionResult]], timeout_ms: int
) -> DeleteRecordsResponse:
    """Wait until all live replicas have deleted the records. REQUEST_TIMED_OUT stands for those that have not."""
    for _, answer in waiting:
        answer.error_code, answer.low_watermark = ErrorCode.REQUEST_TIMED_OUT, NO_OFFSET
    with trio.move_on_after(max(0, timeout_ms) / 1000):
        for deletion, answer in waiting:
            try:
                answer.low_watermark, answer.error_code = await deletion.wait(), ErrorCode.NONE
            except ApiError as error:
                answer.error_code = error.code
    return response


def by_topic(request: DeleteRecordsRequest) -> Steps[dict[str, dict[int, int]]]:
    """Return the requested offset of each partition, by topic."""
    offsets: dict[str, dict[int, int]] = {}
    for topic in filter(lambda topic: topic.partitions, request.topics):
        of_topic = offsets.setdefault(topic.name, {})
        for few in portions(topic.partitions):
            of_topic.update((one.partition_index, one.offset) for one in few)
            yield
    return offsets
