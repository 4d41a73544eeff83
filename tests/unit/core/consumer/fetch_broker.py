"""A broker for tests of fetching: logs of one node, with fetch sessions and aborted transactions."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from pykbroker.core.topic_partition import TopicIdPartition, TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder
from wire.records.compression import Codec
from wire.records.control import transaction_marker

VERSION = 18


def topic_id(topic: str) -> bytes:
    return topic.encode().ljust(16, b"\0")


@dataclass
class Log:
    """Batches, the aborted transactions with the offset of their marker, and the values that a reader may see."""

    batches: list[bytes] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    first_of: dict[int, int] = field(default_factory=dict)
    values: list[tuple[int, bytes, int | None]] = field(default_factory=list)
    """The offset, value and producer id of all records. Records of aborted transactions are removed at the abort."""
    end: int = 0

    def append(self, count: int, producer: int | None = None, codec: Codec = Codec.NONE, gap: int = 0) -> None:
        self.end += gap
        builder = BatchBuilder(
            codec,
            base_offset=self.end,
            leader_epoch=3,
            producer_id=-1 if producer is None else producer,
            transactional=producer is not None,
        )
        for _ in range(count):
            value = b"%d" % self.end
            self.values.append((self.end, value, producer))
            builder.append(None, value, (), 1000 + self.end)
            self.end += 1
        self.batches.append(builder.build())
        if producer is not None:
            self.first_of.setdefault(producer, self.end - count)

    def finish(self, producer: int, *, commit: bool) -> None:
        first = self.first_of.pop(producer, None)
        marker = transaction_marker(
            commit=commit,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=0,
            base_offset=self.end,
        )
        self.batches.append(marker)
        if not commit and first is not None:
            self.aborted.append((first, self.end, producer))
        self.values = [
            (offset, value, None if owner == producer and commit else owner)
            for offset, value, owner in self.values
            if owner != producer or commit
        ]
        self.end += 1

    @property
    def last_stable_offset(self) -> int:
        return min(self.first_of.values(), default=self.end)

    @property
    def committed(self) -> list[tuple[int, bytes]]:
        return [(offset, value) for offset, value, _ in self.values if offset < self.last_stable_offset]

    def read(self, offset: int, bytes_max: int, *, committed: bool) -> PartitionData:
        end = self.last_stable_offset if committed else self.end
        if not 0 <= offset <= self.end:
            return PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        bases = [Batch.read(batch).base_offset for batch in self.batches]
        found, start, last = b"", max(0, bisect_right(bases, offset) - 1), offset
        for batch in self.batches[start:]:
            header = Batch.read(batch)
            if header.last_offset < offset:
                continue
            if header.base_offset >= end or (found and len(found) + len(batch) > bytes_max):
                break
            found, last = found + batch, header.last_offset
        aborted = [
            AbortedTransaction(producer, first)
            for first, marker, producer in self.aborted
            if marker >= offset and first <= last
        ]
        return PartitionData(
            high_watermark=self.end,
            last_stable_offset=self.last_stable_offset,
            log_start_offset=0,
            aborted_transactions=aborted if committed else None,
            records=memoryview(found),
        )


class FetchBroker:
    """A broker that answers Fetch requests. `errors` has the errors to answer once for a partition."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.errors: dict[TopicPartition, PartitionData] = {}
        self.session: dict[TopicIdPartition, FetchPartition] = {}
        self.session_id = self.epoch = 0

    def fetch(self, request: FetchRequest) -> FetchResponse:
        if request.session_epoch == 0:
            self.session, self.session_id, self.epoch = {}, self.session_id + 1, 0
        elif (request.session_id, request.session_epoch) != (self.session_id, self.epoch + 1):
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        is_full = request.session_epoch == 0
        self.epoch = request.session_epoch
        for topic in request.topics:
            for partition in topic.partitions:
                self.session[topic.topic_id, partition.partition] = partition
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                del self.session[forgotten.topic_id, index]
        response = FetchResponse(session_id=self.session_id)
        for (topic_id, index), partition in self.session.items():
            key = TopicPartition(topic_id.rstrip(b"\0").decode(), index)
            data = self.errors.pop(key, None) or self.logs[key].read(
                partition.fetch_offset, partition.partition_max_bytes, committed=request.isolation_level == 1
            )
            data.partition_index = index
            if is_full or data.records or data.error_code:
                response.responses.append(FetchableTopicResponse(topic_id=topic_id, partitions=[data]))
        return response
