"""Fetch (1), v4-18: record batches as they are stored, from given offsets; waits for `min_bytes` up to `max_wait_ms`.

v4 isolation level, aborted transactions (KIP-98)   v5 log start offset   v7 sessions (KIP-227): none is given out, id 0
v9 leader epoch checked (KIP-320)   v11 rack (KIP-392): one replica, nothing preferred   v12 flexible, diverging epoch
v13 topic ids (KIP-516)   v15 replica state (KIP-903)   v16 node endpoints (KIP-951)   v17 directory id (KIP-853)
v18 high watermark of the follower (KIP-1166)
A parked Fetch is answered as soon as another kind of request arrives on its connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.replica.partition import Partition
from pykbroker.replica.replicas import Replicas
from pykbroker.replica.watch import Watch
from pykbroker.server.handler import Answer, Context
from pykbroker.storage.errors import patiently
from pykbroker.storage.log import Log
from pykbroker.world.disk import NotCached
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.fetch import (
    AbortedTransaction, EpochEndOffset, FetchableTopicResponse, FetchPartition, FetchRequest, FetchResponse,
    FetchTopic, PartitionData,
)  # fmt: skip

READ_COMMITTED = 1
NEW_SESSION, NO_SESSION = 0, -1


class Wanted(NamedTuple):
    """One partition of a request: where it is, or why not."""

    topic: FetchTopic
    asked: FetchPartition
    partition: Partition | None
    error: ErrorCode


@dataclass(frozen=True)
class Fetch:
    """`fetch_bytes_max` is fetch.max.bytes, the broker's own bound on a response."""

    key: ClassVar = ApiKey.FETCH
    versions: ClassVar[str] = "4-18"
    replicas: Replicas
    authorizer: Authorizer
    fetch_bytes_max: int

    def __call__(self, context: Context, request: FetchRequest) -> Answer:
        if request.session_epoch > NEW_SESSION:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        wanted = list(self._wanted(context, request))
        reading = _Reading(request, wanted, self.fetch_bytes_max)
        try:
            response = reading.read()
        except NotCached:
            return patiently(reading.read)
        if reading.urgent or reading.size >= request.min_bytes or request.max_wait_ms <= 0:
            return response
        watch = Watch(want.partition for want in wanted if want.partition is not None)
        context.hurry = watch.hurry
        return reading.wait(watch)

    def refuse(self, request: FetchRequest, code: ErrorCode) -> FetchResponse:
        """The same error for every partition, which every version can say."""
        return FetchResponse(responses=[
            FetchableTopicResponse(topic.topic, topic.topic_id, [
                PartitionData(asked.partition, code, -1, aborted_transactions=None, records=b"")
                for asked in topic.partitions])
            for topic in request.topics
        ])  # fmt: skip

    def _wanted(self, context: Context, request: FetchRequest) -> Iterator[Wanted]:
        follower = max(request.replica_id, request.replica_state.replica_id)
        for topic in request.topics:
            for asked in topic.partitions:
                try:
                    known = self.replicas.topic(topic.topic, topic.topic_id)
                    if not self.authorizer.allows(context.principal, Operation.READ, ResourceType.TOPIC, known.name):
                        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    partition = known.partitions.get(asked.partition)
                    if partition is None:
                        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    partition.require_leader(asked.current_leader_epoch)
                    if follower >= 0:  # no other broker has a replica of ours
                        known_epoch = asked.current_leader_epoch >= 0
                        raise ApiError(
                            ErrorCode.UNKNOWN_LEADER_EPOCH if known_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
                        )
                    yield Wanted(topic, asked, partition, ErrorCode.NONE)
                except ApiError as error:
                    yield Wanted(topic, asked, None, error.code)


class _Reading:
    """One request's reads. `size` is the bytes found; `urgent` says that waiting for more would hide something."""

    def __init__(self, request: FetchRequest, wanted: list[Wanted], bytes_max: int) -> None:
        self._request, self._wanted = request, wanted
        self._bytes_max = min(request.max_bytes, bytes_max)
        self._committed_only = request.isolation_level == READ_COMMITTED
        self.size = 0
        self.urgent = not wanted

    def read(self) -> FetchResponse:
        """All partitions, from the page cache; NotCached when one needs the disk."""
        self.size = 0
        response = FetchResponse()
        topic: FetchTopic | None = None
        partitions: list[PartitionData] = []
        for want in self._wanted:
            if want.topic is not topic:
                topic, partitions = want.topic, []
                response.responses.append(FetchableTopicResponse(topic.topic, topic.topic_id, partitions))
            data = PartitionData(want.asked.partition, want.error, -1, aborted_transactions=None, records=b"")
            partitions.append(data)
            if want.partition is None:
                self.urgent = True
                continue
            try:
                self._fill(data, want.partition, want.asked)
            except ApiError as error:
                self.urgent = True
                data.error_code, data.high_watermark, data.last_stable_offset = error.code, -1, -1
        return response

    async def wait(self, watch: Watch) -> FetchResponse:
        """Until there is enough, the time is up, or the connection hurries; then what there is."""
        try:
            with trio.move_on_after(self._request.max_wait_ms / 1000):
                while not watch.hurried:
                    await watch.wait()
                    response = await patiently(self.read)
                    if self.urgent or self.size >= self._request.min_bytes:
                        return response
        finally:
            watch.close()
        return await patiently(self.read)

    def _fill(self, data: PartitionData, partition: Partition, asked: FetchPartition) -> None:
        log = partition.require_leader(asked.current_leader_epoch)
        data.high_watermark = partition.high_watermark
        data.last_stable_offset = log.last_stable_offset(partition.high_watermark)
        data.log_start_offset = log.log_start_offset
        if self._diverges(data, log, asked):
            return
        upper = data.last_stable_offset if self._committed_only else data.high_watermark
        size = min(asked.partition_max_bytes, self._bytes_max - self.size)
        data.records = records = log.read(asked.fetch_offset, size, upper, at_least_one=not self.size)
        self.size += len(records)
        if self._committed_only:
            data.aborted_transactions = [
                AbortedTransaction(aborted.producer_id, aborted.first_offset)
                for aborted in log.aborted_transactions(asked.fetch_offset, records)
            ]

    def _diverges(self, data: PartitionData, log: Log, asked: FetchPartition) -> bool:
        """Does the client's log part from ours before its fetch offset (KIP-595)? Then tell it where."""
        if asked.last_fetched_epoch < 0:
            return False
        epoch, end_offset = log.end_offset_for_epoch(asked.last_fetched_epoch)
        if epoch < 0:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch >= asked.last_fetched_epoch and end_offset >= asked.fetch_offset:
            return False
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        self.urgent = True
        return True
