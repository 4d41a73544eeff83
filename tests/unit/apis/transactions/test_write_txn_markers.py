"""WriteTxnMarkers: the errors that the transaction coordinators of other brokers receive."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.apis.transactions.write_txn_markers import WriteTxnMarkers
from pykbroker.core.errors import ApiError
from pykbroker.server.handler import Later
from tests.unit.apis.calling import context
from wire.error_codes import ErrorCode
from wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest


class Refusing:
    """The endings of transactions in a log that refuses each marker, at once or after the append."""

    def __init__(self, code: ErrorCode, *, at_once: bool) -> None:
        self._code, self._at_once = code, at_once

    def append(self, topic: str, index: int, marker: Any) -> Any:
        if self._at_once:
            raise ApiError(self._code)
        return SimpleNamespace(wait=self._wait)

    async def _wait(self) -> None:
        raise ApiError(self._code)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
async def test_errors_of_group_coordinators_become_errors_of_logs(
    refusal: ErrorCode, code: ErrorCode, at_once: bool
) -> None:
    endings: Any = Refusing(refusal, at_once=at_once)
    asked = WritableTxnMarker(7, 0, True, [WritableTxnMarkerTopic("__consumer_offsets", [3])], 0)
    later = WriteTxnMarkers(endings)(context(1), WriteTxnMarkersRequest([asked]))
    assert isinstance(later, Later)
    response: Any = await later.work  # type: ignore[misc]
    (answered,) = response.markers[0].topics[0].partitions
    assert (answered.partition_index, answered.error_code) == (3, code)
