"""DeleteRecords (21), v0-2: a partition begins at a later offset from now on; -1 stands for the high watermark.

v2 flexible
The low watermark of the answer is where the log begins on every replica. The timeout is for waiting for replicas, and
there is one. Records go at once for clients, and from the disk with the next sweep of whole segments.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.names import is_internal
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.permissions import permitted
from pykbroker.core.steps import Steps, finish
from pykbroker.replica.replicas import Replicas
from pykbroker.server.handler import HandlerSteps, RequestContext
from pykbroker.storage.files.portions import portions
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


class DeleteRecords(msgspec.Struct, frozen=True):
    """A partition that is named twice is answered once; its last offset counts."""

    key: ClassVar = ApiKey.DELETE_RECORDS
    versions: ClassVar[str] = "0-2"
    replicas: Replicas
    authorizer: Authorizer

    def __call__(self, context: RequestContext, request: DeleteRecordsRequest) -> HandlerSteps:
        response = DeleteRecordsResponse()
        for name, offsets in (yield from by_topic(request)).items():
            answers = []
            for index, offset in offsets.items():
                try:
                    answers.append(DeleteRecordsPartitionResult(index, self._delete(context, name, index, offset)))
                except ApiError as error:
                    answers.append(DeleteRecordsPartitionResult(index, NO_LOW_WATERMARK, error.code))
                yield
            response.topics.append(DeleteRecordsTopicResult(name, answers))
        return response

    def refuse(self, request: DeleteRecordsRequest, code: ErrorCode) -> DeleteRecordsResponse:
        """The same error for every partition."""
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name, [DeleteRecordsPartitionResult(index, NO_LOW_WATERMARK, code) for index in offsets]
                )
                for name, offsets in finish(by_topic(request)).items()
            ]
        )

    def _delete(self, context: RequestContext, topic: str, index: int, offset: int) -> int:
        """Where the log begins now."""
        if not permitted(self.authorizer, context.principal, self.key, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = self.replicas.partition(topic, index)
        if is_internal(topic):
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
    """Return the offset of each partition of each topic."""
    offsets: dict[str, dict[int, int]] = {}
    for topic in filter(lambda topic: topic.partitions, request.topics):
        of_topic = offsets.setdefault(topic.name, {})
        for few in portions(topic.partitions):
            of_topic.update((one.partition_index, one.offset) for one in few)
            yield
    return offsets
