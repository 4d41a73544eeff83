"""WriteTxnMarkers (27), v1-2: write transaction markers to partitions that this broker leads (KIP-98).

v1 flexible   v2 transaction version (KIP-1228): from 2 on, the marker's epoch is the transaction's plus one
Transaction coordinators send this request, and so do admins to abort hanging transactions (KIP-664).
"""

from __future__ import annotations

from collections import deque

import trio

from pykbroker.coordinator.endings import AppendedMarker, Endings
from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.core.steps import Steps
from pykbroker.server.handler import Answer, ApiHandler, RequestContext, now_or_later
from wire.error_codes import ErrorCode
from wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

AT_ONCE_MAX = 100
"""The number of markers that are appended, or waited for, in one step of the event loop."""
Uncommitted = tuple[WritableTxnMarkerPartitionResult, AppendedMarker]
"""A marker in a log, and the result of its partition."""
UNCOORDINATED = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
"""Errors of a group coordinator that writes a marker. They become NOT_LEADER_OR_FOLLOWER, after which brokers retry."""


class WriteTxnMarkers(ApiHandler, frozen=True):
    """A handler that appends all markers in order, then waits until they are committed, for `s_max` at most.

    A marker that is not committed until then gets REQUEST_TIMED_OUT. It stays in the log, and coordinators repeat it.
    """

    endings: Endings
    s_max: float
    """request.timeout.ms in seconds, as in Kafka"""

    def __call__(self, context: RequestContext, request: WriteTxnMarkersRequest) -> Answer:
        return now_or_later(self._write(request.markers))

    async def _write(self, markers: list[WritableTxnMarker]) -> WriteTxnMarkersResponse:
        ends_at = trio.current_time() + self.s_max
        response, appended = WriteTxnMarkersResponse(), deque[Uncommitted]()
        for count, _ in enumerate(self._append(markers, response, appended), 1):
            if count % AT_ONCE_MAX == 0:
                await trio.lowlevel.checkpoint()
        while appended:
            with trio.move_on_at(ends_at) as limit:
                await wait_for(appended)
            if limit.cancelled_caught:  # of those that follow, some are committed
                partition, _ = appended.popleft()
                partition.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response

    def _append(
        self, markers: list[WritableTxnMarker], response: WriteTxnMarkersResponse, appended: deque[Uncommitted]
    ) -> Steps[None]:
        """Append each marker to its partitions, one partition in each step, and add the results to `response`."""
        for asked in markers:
            yield
            if not asked.topics:
                continue
            marker = marker_of(asked)
            response.markers.append(answer := WritableTxnMarkerResult(asked.producer_id))
            for topic in asked.topics:
                yield
                answer.topics.append(answered := WritableTxnMarkerTopicResult(topic.name))
                for index in topic.partition_indexes:
                    answered.partitions.append(partition := WritableTxnMarkerPartitionResult(index))
                    try:
                        appended.append((partition, self.endings.append(topic.name, index, marker)))
                    except ApiError as error:
                        partition.error_code = broker_error(error.code)
                    yield


async def wait_for(appended: deque[Uncommitted]) -> None:
    """Wait for the oldest marker, then the next. Each is removed once it is committed or has failed."""
    while appended:
        if len(appended) % AT_ONCE_MAX == 0:
            await trio.lowlevel.checkpoint()
        partition, ending = appended[0]
        try:
            await ending.wait()
        except ApiError as error:
            partition.error_code = broker_error(error.code)
        appended.popleft()


def broker_error(code: ErrorCode) -> ErrorCode:
    """Return the error that transaction coordinators of Apache Kafka, too, understand."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code in UNCOORDINATED else code


def marker_of(asked: WritableTxnMarker) -> Marker:
    """Return the marker that a request describes."""
    return Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
        asked.transaction_version,
    )
