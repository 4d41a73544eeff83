"""ListOffsets (2), v1-11: return the earliest or latest offset, or the first at or after a timestamp, by partition.

v2 isolation level: latest is the last stable offset (KIP-98)   v4 leader epoch checked and returned (KIP-320)
v5 OFFSET_NOT_AVAILABLE (KIP-207)   v6 flexible   v7 -3 max timestamp (KIP-734)   v8 -4 earliest local (KIP-405)
v9 -5 latest tiered: always -1   v10 timeout: ignored, no lookup waits for remote storage
v11 -6 earliest pending upload: always -1
"""

from __future__ import annotations

from collections import Counter

from pykbroker.core.errors import ApiError
from pykbroker.core.security.rights import LIST_OFFSETS_AS_FOLLOWER, LIST_OFFSETS_TOPIC, may, require
from pykbroker.core.steps import Steps
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.replicas import Replicas
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext
from pykbroker.storage.files.errors import patiently
from pykbroker.storage.log.log import Log
from pykbroker.world.disk import NotCached
from wire.error_codes import ErrorCode
from wire.isolation import READ_COMMITTED
from wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from wire.sentinels import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
)

FIRST_VERSION = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
DEBUGGING_REPLICA_ID = -2
"""The replica id of a tool that asks any replica, and that sees all records, as a follower does."""
EPOCH_VERSION_FIRST = 4
OFFSET_NOT_AVAILABLE_VERSION_FIRST = 5


class ListOffsets(ApiHandler, frozen=True):
    """A handler that answers in steps, and continues as a coroutine if a lookup by timestamp must read the disk."""

    replicas: Replicas

    def __call__(self, context: RequestContext, request: ListOffsetsRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)

    def _steps(self, context: RequestContext, request: ListOffsetsRequest) -> Steps[Answer]:
        cold: list[_LookUp] = []
        asked_for = Counter(
            (topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions
        )
        answers: dict[str, list[ListOffsetsPartitionResponse]] = {}
        for topic in request.topics:
            of_topic = answers.setdefault(topic.name, [])
            for asked in topic.partitions:
                times = asked_for.pop((topic.name, asked.partition_index), 0)
                if not times:
                    continue  # a repeated partition has one result, at its first place
                look_up = _LookUp(self, context, request, topic.name, asked)
                if times > 1 and may(context, LIST_OFFSETS_TOPIC, topic.name):
                    look_up.answer.error_code = ErrorCode.INVALID_REQUEST
                elif not look_up.done():
                    cold.append(look_up)
                of_topic.append(look_up.answer)
                yield
        response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(*each) for each in answers.items()])
        return Later(self._finish(response, cold), holds_connection=False) if cold else response

    def partition(self, context: RequestContext, topic: str, asked: ListOffsetsPartition) -> Partition:
        """Return the partition. Raise ApiError if it is not here, or if the client may not describe it."""
        require(context, LIST_OFFSETS_TOPIC, topic)
        return self.replicas.partition(TopicPartition(topic, asked.partition_index))

    async def _finish(self, response: ListOffsetsResponse, cold: list[_LookUp]) -> ListOffsetsResponse:
        for look_up in cold:
            await look_up.do_patiently()
        return response


class _LookUp:
    """The lookup of one partition. Offsets are absolute, timestamps are ms since 1970, -1 means not found."""

    def __init__(
        self,
        api: ListOffsets,
        context: RequestContext,
        request: ListOffsetsRequest,
        topic: str,
        asked: ListOffsetsPartition,
    ) -> None:
        self._api, self._context, self._topic, self._asked = api, context, topic, asked
        self._committed_only, self._replica_id = request.isolation_level == READ_COMMITTED, request.replica_id
        self.answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)

    def done(self) -> bool:
        """Whether the lookup completed without reading the disk. If not, the caller must await `do_patiently`."""
        try:
            self._answer()
        except NotCached:
            return False
        except ApiError as error:
            self.answer.error_code = error.code
        return True

    async def do_patiently(self) -> None:
        """Complete the lookup, with reads of the disk in a thread."""
        try:
            partition = self._api.partition(self._context, self._topic, self._asked)
            with partition.errors():
                await patiently(self._answer)
        except ApiError as error:
            self.answer.error_code = error.code

    def _answer(self) -> None:
        partition = self._api.partition(self._context, self._topic, self._asked)
        timestamp, log = self._asked.timestamp, self._log(partition)
        upper = self._upper_offset(partition, log)
        if timestamp < 0 and self._context.version < FIRST_VERSION.get(timestamp, 1 << 15):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if timestamp == LATEST_TIMESTAMP:
            self._require_latest(partition)
            self._found((NO_TIMESTAMP, upper, partition.leader_epoch))
        elif timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            start_offset = log.log_start_offset
            self._found((NO_TIMESTAMP, start_offset, log.epochs.epoch_of(start_offset)))
        elif timestamp == MAX_TIMESTAMP or timestamp >= 0:
            found = by_timestamp(partition, log, timestamp, upper)
            if found is None:
                self._require_latest(partition)
            self._found(found)

    def _log(self, partition: Partition) -> Log:
        """Return the log. Raise ApiError if this broker must lead the partition and does not, or for another epoch."""
        epoch = self._asked.current_leader_epoch
        if self._replica_id == DEBUGGING_REPLICA_ID:
            return partition.require_log(epoch)
        return partition.require_leader(epoch)

    def _upper_offset(self, partition: Partition, log: Log) -> int:
        """Return the offset below which the client may see records: the log end offset if it sees all of them."""
        if self._sees_all(partition):
            return log.log_end_offset
        return partition.upper_offset(committed_only=self._committed_only)

    def _sees_all(self, partition: Partition) -> bool:
        """Whether the client is a follower, or a tool that asks any replica. Kafka believes any client."""
        if self._replica_id == DEBUGGING_REPLICA_ID:
            return True
        leading = partition.leading
        if self._replica_id < 0 or leading is None or self._replica_id not in leading.followers:
            return False
        return may(self._context, LIST_OFFSETS_AS_FOLLOWER)

    def _require_latest(self, partition: Partition) -> None:
        """Raise an error while the high watermark of a new leader is below the begin of its epoch (KIP-207)."""
        leading = partition.leading
        if leading is not None and not leading.knows_latest(partition.high_watermark) and not self._sees_all(partition):
            old = self._context.version < OFFSET_NOT_AVAILABLE_VERSION_FIRST
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE if old else ErrorCode.OFFSET_NOT_AVAILABLE)

    def _found(self, found: tuple[int, int, int] | None) -> None:
        """Store (timestamp, offset, leader epoch) in the result; versions before 4 have no leader epoch."""
        if found is not None:
            self.answer.timestamp, self.answer.offset, epoch = found
            if self._context.version >= EPOCH_VERSION_FIRST:
                self.answer.leader_epoch = epoch


def by_timestamp(partition: Partition, log: Log, timestamp: int, upper: int) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch) of a record below the offset `upper`, or None if there is none.

    The record is the one with the largest timestamp for MAX_TIMESTAMP, otherwise the first at or after a timestamp.
    """
    with partition.errors():
        if timestamp != MAX_TIMESTAMP:
            return log.reader.offset_for_timestamp(timestamp, upper)
        youngest = log.reader.max_timestamp()
    return youngest if youngest and youngest[1] < upper else None
