"""DeleteRecords (21), v0-2: advance the log start offset of partitions; offset -1 means the high watermark.

v2 flexible The low watermark in the response is the log start offset. The timeout has no effect: it limits the wait for
followers, and this broker has no followers. Clients stop seeing the records at once; the next retention pass deletes
whole segments from the disk.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.names import is_internal
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.permissions import permitted
from pykbroker.core.steps import Steps, finish
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.replicas import Replicas
from pykbroker.server.handler import Answer, Handler, Later, RequestContext
from pykbroker.world.portions import portions
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


class DeleteRecords(Handler, msgspec.Struct, frozen=True):
    """A handler that answers a repeated partition once, with the last of its offsets."""

    key: ClassVar = ApiKey.DELETE_RECORDS
    versions: ClassVar[str] = "0-2"
    replicas: Replicas
    authorizer: Authorizer

    def __call__(self, context: RequestContext, request: DeleteRecordsRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)

    def _steps(self, context: RequestContext, request: DeleteRecordsRequest) -> Steps[Answer]:
        response = DeleteRecordsResponse()
        for name, offsets in (yield from by_topic(request)).items():
            answers = []
            for index, offset in offsets.items():
                try:
                    answers.append(
                        DeleteRecordsPartitionResult(index, self._delete(context, TopicPartition(name, index), offset))
                    )
                except ApiError as error:
                    answers.append(DeleteRecordsPartitionResult(index, NO_LOW_WATERMARK, error.code))
                yield
            response.topics.append(DeleteRecordsTopicResult(name, answers))
        return response

    def refuse(self, request: DeleteRecordsRequest, code: ErrorCode) -> DeleteRecordsResponse:
        """Return a response with the error `code` for every partition."""
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name, [DeleteRecordsPartitionResult(index, NO_LOW_WATERMARK, code) for index in offsets]
                )
                for name, offsets in finish(by_topic(request)).items()
            ]
        )

    def _delete(self, context: RequestContext, key: TopicPartition, offset: int) -> int:
        """Delete the records before `offset` and return the new log start offset."""
        if not permitted(self.authorizer, context.session, self.key, key.topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = self.replicas.partition(key)
        if is_internal(key.topic):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        log = partition.require_leader()
        if "delete" not in log.config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        if offset == HIGH_WATERMARK:
            offset = partition.high_watermark
        if not 0 <= offset <= partition.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return log.delete_records(offset)


def by_topic(request: DeleteRecordsRequest) -> Steps[dict[str, dict[int, int]]]:
    """Return the requested offset of each partition, by topic."""
    offsets: dict[str, dict[int, int]] = {}
    for topic in filter(lambda topic: topic.partitions, request.topics):
        of_topic = offsets.setdefault(topic.name, {})
        for few in portions(topic.partitions):
            of_topic.update((one.partition_index, one.offset) for one in few)
            yield
    return offsets
