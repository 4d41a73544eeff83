"""WriteTxnMarkers: the errors that the transaction coordinators of other brokers receive."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.apis.transactions.write_txn_markers import WriteTxnMarkers
from pykbroker.core.errors import ApiError
from pykbroker.server.handler import Later
from tests.unit.apis.calling import context
from wire.error_codes import ErrorCode
from wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

LIMIT_S = 30.0


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
    later = WriteTxnMarkers(endings, LIMIT_S)(context(1), WriteTxnMarkersRequest([asked]))
    assert isinstance(later, Later)
    response: Any = await later.work  # type: ignore[misc]
    (answered,) = response.markers[0].topics[0].partitions
    assert (answered.partition_index, answered.error_code) == (3, code)


@pytest.mark.parametrize("after_s", [LIMIT_S - 0.01, LIMIT_S + 0.01])
async def test_a_marker_that_is_not_committed_within_request_timeout_ms_times_out(
    autojump_clock: trio.testing.MockClock, after_s: float
) -> None:
    """The markers of the other partitions are committed at once, and within the limit of the request."""
    commits_after_s = {0: 0.0, 1: after_s, 2: 0.0, 3: LIMIT_S + 1, 4: LIMIT_S / 2}
    begun = trio.current_time()

    def append(topic: str, index: int, marker: Any) -> Any:
        async def wait() -> None:
            if (due_at := begun + commits_after_s[index]) > trio.current_time():
                await trio.sleep_until(due_at)

        return SimpleNamespace(wait=wait)

    endings: Any = SimpleNamespace(append=append)
    asked = WritableTxnMarker(7, 0, True, [WritableTxnMarkerTopic("t", list(commits_after_s))], 0)
    later: Any = WriteTxnMarkers(endings, LIMIT_S)(context(1), WriteTxnMarkersRequest([asked]))
    response = await later.work
    assert trio.current_time() - begun == pytest.approx(LIMIT_S)
    late = {index for index, due_s in commits_after_s.items() if due_s > LIMIT_S}
    found = {each.partition_index: each.error_code for each in response.markers[0].topics[0].partitions}
    assert found == {index: ErrorCode.REQUEST_TIMED_OUT if index in late else 0 for index in commits_after_s}
