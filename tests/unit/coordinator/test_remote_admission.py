"""Tests of the verification of transactions by coordinators on other brokers: requests are combined (KIP-890)."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
import trio.testing

from pykbroker.coordinator.admission import Admission
from pykbroker.coordinator.remote_admission import RemoteAdmissions
from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker, Producers
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

PEER, OTHER_PEER = 2, 3
Asked = dict[str, list[TopicPartition]]


class Coordinators:
    """Coordinators on other brokers, which answer once `gate` is set. They refuse partition 9 of any topic."""

    def __init__(self) -> None:
        self.gate = trio.Event()
        self.requests: list[tuple[int, Asked]] = []
        self.error: ApiError | None = None
        self.in_flight = self.in_flight_max = 0

    async def ask(self, node_id: int, request: Any) -> Any:
        assert isinstance(request, AddPartitionsToTxnRequest)
        self.requests.append((node_id, {one.transactional_id: places(one.topics) for one in request.transactions}))
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight, self.in_flight_max)
        try:
            await self.gate.wait()
        finally:
            self.in_flight -= 1
        if self.error is not None:
            raise self.error
        results = [
            AddPartitionsToTxnResult(one.transactional_id, results_of(one.topics)) for one in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)


def places(topics: Any) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def results_of(topics: Any) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, ErrorCode.TRANSACTION_ABORTABLE if index == 9 else 0)
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


class Callers:
    """Callers in a nursery, and what each received."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.coordinators = Coordinators()
        self.admissions = RemoteAdmissions(self.coordinators)
        self.answers: dict[int, dict[TopicPartition, ErrorCode]] = {}
        self.scopes: list[trio.CancelScope] = []

    async def begin(
        self, name: str, *indexes: int, epoch: int = 0, producer_id: int = 1, add: bool = True, node_id: int = PEER
    ) -> None:
        """Begin a verification, and wait until its caller waits."""
        number = len(self.scopes)
        self.scopes.append(trio.CancelScope())
        partitions = frozenset(TopicPartition("t", index) for index in indexes)

        async def run() -> None:
            with self.scopes[number]:
                self.answers[number] = await self.admissions.admit(
                    node_id, name, producer_id, epoch, partitions, add=add
                )

        self._nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()

    async def admit(
        self, name: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition], *, add: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """Let a coordinator on another broker verify the partitions, as `TransactionRequests` does."""
        return await self.admissions.admit(PEER, name, producer_id, epoch, partitions, add=add)

    async def finish(self) -> None:
        """Answer as the coordinators do, and wait until all callers have their answers."""
        self.coordinators.gate.set()
        await trio.testing.wait_all_tasks_blocked()


async def test_verifications_that_wait_are_sent_in_one_request() -> None:
    async with trio.open_nursery() as nursery:
        callers = Callers(nursery)
        for number in range(5):
            await callers.begin(f"x{number}", number)
        assert callers.coordinators.requests == [(PEER, {"x0": [TopicPartition("t", 0)]})]
        await callers.finish()
        assert callers.coordinators.requests[1:] == [
            (PEER, {f"x{number}": [TopicPartition("t", number)] for number in range(1, 5)})
        ]
        assert callers.coordinators.in_flight_max == 1
        assert callers.answers == {number: {} for number in range(5)}


async def test_each_coordinator_has_a_request_of_its_own() -> None:
    async with trio.open_nursery() as nursery:
        callers = Callers(nursery)
        await callers.begin("x", 0)
        await callers.begin("y", 0, node_id=OTHER_PEER)
        assert [node_id for node_id, _ in callers.coordinators.requests] == [PEER, OTHER_PEER]
        await callers.finish()
        assert callers.answers == {0: {}, 1: {}}


async def test_verifications_of_one_transaction_are_combined_and_each_caller_gets_its_own_errors() -> None:
    async with trio.open_nursery() as nursery:
        callers = Callers(nursery)
        await callers.begin("before", 0)
        await callers.begin("x", 1)
        await callers.begin("x", 2, 9)
        await callers.finish()
        _, asked = callers.coordinators.requests[1]
        assert asked == {"x": [TopicPartition("t", index) for index in (1, 2, 9)]}
        assert callers.answers[1] == {}
        assert callers.answers[2] == {TopicPartition("t", 9): ErrorCode.TRANSACTION_ABORTABLE}


@pytest.mark.parametrize(
    ("epoch", "add", "first", "second"),
    [
        (6, True, ErrorCode.INVALID_PRODUCER_EPOCH, None),
        (4, True, None, ErrorCode.INVALID_PRODUCER_EPOCH),
        (5, False, ErrorCode.NETWORK_EXCEPTION, None),
    ],
    ids=["newer epoch", "older epoch", "other kind"],
)
async def test_another_epoch_of_a_waiting_transaction_fences_the_older_one(
    epoch: int, add: bool, first: ErrorCode | None, second: ErrorCode | None
) -> None:
    async with trio.open_nursery() as nursery:
        callers = Callers(nursery)
        await callers.begin("before", 0)
        await callers.begin("x", 1, epoch=5)
        await callers.begin("x", 2, epoch=epoch, add=add)
        await callers.finish()
        assert callers.answers[1] == ({} if first is None else {TopicPartition("t", 1): first})
        assert callers.answers[2] == ({} if second is None else {TopicPartition("t", 2): second})
        assert len(callers.coordinators.requests[1][1]) == 1


async def test_without_a_response_all_callers_of_the_request_get_the_error() -> None:
    async with trio.open_nursery() as nursery:
        callers = Callers(nursery)
        for number in range(3):
            await callers.begin(f"x{number}", number)
        callers.coordinators.error = ApiError(ErrorCode.NETWORK_EXCEPTION)
        await callers.finish()
        assert callers.answers == {
            number: {TopicPartition("t", number): ErrorCode.NETWORK_EXCEPTION} for number in range(3)
        }


async def test_a_cancelled_sender_leaves_the_next_request_to_a_waiting_caller() -> None:
    async with trio.open_nursery() as nursery:
        callers = Callers(nursery)
        await callers.begin("x", 0)
        await callers.begin("y", 1)
        await callers.begin("z", 2)
        callers.scopes[2].cancel()
        await trio.testing.wait_all_tasks_blocked()
        callers.scopes[0].cancel()
        await trio.testing.wait_all_tasks_blocked()
        await callers.finish()
        assert callers.answers == {1: {}}
        assert [asked for _, asked in callers.coordinators.requests] == [
            {"x": [TopicPartition("t", 0)]},
            {"y": [TopicPartition("t", 1)]},
        ]


async def test_a_transaction_may_begin_while_the_marker_of_the_last_one_is_on_its_way() -> None:
    """A verification waits for the request before it, and meanwhile the marker of the same epoch is written."""
    log, place = Producers(), TopicPartition("t", 1)
    first = Admission(1, 0, adds=True, now_ms=0)
    first.begin(place, log, 0)
    log.check(1, 0, 0, 0, True, first.verifications[place])
    log.remember(1, 0, 0, 0, 0, 0, True)
    async with trio.open_nursery() as nursery:
        callers = Callers(nursery)
        await callers.begin("before", 0)
        admission = Admission(1, 1, adds=True, now_ms=0)
        admission.begin(place, log, 0)
        nursery.start_soon(admission.ask, cast("Any", callers), "x")
        await trio.testing.wait_all_tasks_blocked()
        assert len(callers.coordinators.requests) == 1, "the verification waits"
        log.check_marker(Marker(1, 1, True, 0, 2))
        log.remember_marker(1, 1, 0, 1, 0, aborted=False, transaction_version=2)
        await callers.finish()
    assert admission.refused == {}
    assert log.check(1, 1, 0, 0, True, admission.verifications[place]) is None


@pytest.mark.parametrize("newer_waits", [False, True])
async def test_a_refused_verification_is_dropped_unless_a_newer_epoch_waits(newer_waits: bool) -> None:
    log, place = Producers(), TopicPartition("t", 9)
    async with trio.open_nursery() as nursery:
        callers = Callers(nursery)
        admission = Admission(1, 4, adds=True, now_ms=0)
        admission.begin(place, log, 0)
        nursery.start_soon(admission.ask, cast("Any", callers), "x")
        await trio.testing.wait_all_tasks_blocked()
        if newer_waits:
            Admission(1, 5, adds=True, now_ms=0).begin(place, log, 0)
        await callers.finish()
    assert admission.refused == {place: ErrorCode.TRANSACTION_ABORTABLE}
    assert len(log.verifications) == newer_waits
