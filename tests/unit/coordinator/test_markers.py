"""Tests of transaction markers: the coordinator repeats a marker until it is in the log of each partition."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.coordinator.admission import Admission
from pykbroker.coordinator.batches import Batches
from pykbroker.coordinator.endings import Endings
from pykbroker.coordinator.markers import AT_ONCE_MAX, SORTED_AT_ONCE_MAX, MarkerWriter
from pykbroker.coordinator.runtime import Runtime
from pykbroker.coordinator.transactions import TransactionRequests
from pykbroker.core.errors import ApiError
from pykbroker.core.group.machine import GroupMachine
from pykbroker.core.group.requests import ClientRequest, FetchOffsets
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.log.producers import Marker, Producers
from pykbroker.core.names import GROUP_METADATA_TOPIC
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.machine import TransactionsMachine
from pykbroker.core.txn.requests import (
    AddPartitions,
    EndTransaction,
    FindTransaction,
    FoundTransactions,
    InitProducer,
    Reply,
    TransactionAnswer,
)
from pykbroker.core.txn.settings import TransactionSettings
from pykbroker.core.txn.state import TransactionState
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.world.turns import Turns
from tests.unit.coordinator.memory_log import MemoryLog
from wire.error_codes import ErrorCode
from wire.messages.offset_fetch import OffsetFetchRequestGroup
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from wire.records.batch import batches
from wire.records.control import ControlRecord, ControlType, control_records
from wire.stored.control import EndTxnMarker
from wire.stored.group import GROUP_RECORDS
from wire.stored.transaction_log import TRANSACTION_RECORDS

WALL_MS = 1_700_000_000_000
NAME = "copier"


class Ids:
    """A source of producer ids that may be exhausted."""

    def __init__(self) -> None:
        self.next, self.in_hand, self.refills = 7, True, 0

    def next_nowait(self) -> int | None:
        if not self.in_hand:
            return None
        self.next += 1
        return self.next - 1

    async def refill(self) -> None:
        await trio.lowlevel.checkpoint()
        self.refills += 1
        if self.refills > 1:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.in_hand = True


class Coordinators:
    """The transaction and group coordinators of a broker, their logs, and partitions that take markers."""

    def __init__(self, log: MemoryLog) -> None:
        self.log, self.ids, self.wall_ms = log, Ids(), WALL_MS
        self.partitions: dict[tuple[str, int], MemoryLog] = {
            (GROUP_METADATA_TOPIC, 0): MemoryLog(),
            ("a", 0): MemoryLog(),
            ("b", 3): MemoryLog(),
        }
        settings = TransactionSettings(lambda: 2, abort_interval_ms=1000)
        self.runtime = Runtime(
            "__transaction_state",
            lambda: TransactionsMachine(settings, self.ids),
            Batches(TRANSACTION_RECORDS),
            lambda: self.wall_ms,
            InlineOffLoop(),
            Turns(lambda: 0),
        )
        self.groups = Runtime(
            GROUP_METADATA_TOPIC,
            lambda: GroupMachine(GroupSettings(), Random(1)),
            Batches(GROUP_RECORDS, 0),
            lambda: WALL_MS,
            InlineOffLoop(),
            Turns(lambda: 0),
        )
        endings = Endings(self.partition, self.groups, lambda: WALL_MS)
        self.writer = MarkerWriter(self.runtime, endings, lambda topic, index: (topic, index) in self.partitions)
        self.transactions = TransactionRequests(self.runtime, self.ids, 100)

    def partition(self, topic: str, index: int) -> MemoryLog:
        if (topic, index) not in self.partitions:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partitions[topic, index]

    async def begin(self, *places: tuple[str, int], version: int = 0) -> TransactionAnswer:
        """Begin a transaction with the given partitions and return its producer id and epoch."""
        producer = await self.transactions.send(InitProducer(NAME, 60_000))
        assert isinstance(producer, TransactionAnswer)
        partitions = frozenset(TopicPartition(*place) for place in places)
        added = AddPartitions(NAME, producer.producer_id, producer.epoch, partitions, version)
        assert await self.transactions.send(added) == TransactionAnswer()
        return producer

    async def end(self, producer: TransactionAnswer, *, commit: bool, version: int = 0) -> TransactionAnswer:
        reply = await self.transactions.send(
            EndTransaction(NAME, producer.producer_id, producer.epoch, commit, version)
        )
        assert isinstance(reply, TransactionAnswer)
        return reply

    async def state(self) -> TransactionState:
        found = await self.transactions.send(FindTransaction(NAME))
        assert isinstance(found, FoundTransactions)
        return found.transactions[0].state

    def markers(self, topic: str, index: int) -> list[tuple[int, int, ControlRecord]]:
        """Return the producer id, epoch and record of each control batch in a partition."""
        return [
            (batch.producer_id, batch.producer_epoch, record)
            for data in self.partitions[topic, index].stored
            for batch in batches(data)
            if batch.is_control
            for record in control_records(batch)
        ]


@asynccontextmanager
async def hosting(log: MemoryLog | None = None, *, writing: bool = True) -> AsyncIterator[Coordinators]:
    coordinators = Coordinators(log or MemoryLog())
    async with trio.open_nursery() as nursery:
        logs = {0: coordinators.log}
        coordinators.runtime.follow(1, logs)
        coordinators.groups.follow(1, {0: coordinators.partitions[GROUP_METADATA_TOPIC, 0]})
        coordinators.writer.follow(logs if writing else {})
        for task in (coordinators.runtime.run, coordinators.groups.run, coordinators.writer.run):
            nursery.start_soon(task)
        await trio.testing.wait_all_tasks_blocked()
        yield coordinators
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 2])
async def test_each_partition_gets_the_marker_and_the_transaction_completes(commit: bool, version: int) -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin(("a", 0), ("b", 3), version=version)
        bumped = version // 2
        assert (await coordinators.end(producer, commit=commit, version=version)).error_code is ErrorCode.NONE
        await trio.testing.wait_all_tasks_blocked()
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        for place in (("a", 0), ("b", 3)):
            assert coordinators.markers(*place) == [(7, bumped, ControlRecord(0, kind, EndTxnMarker(0)))]
        assert await coordinators.state() is (
            TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
        )


async def test_a_groups_transactional_offsets_appear_with_the_marker() -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin((GROUP_METADATA_TOPIC, 0))
        coordinators.groups.ask(
            "g",
            ClientRequest(
                TxnOffsetCommitRequest(
                    NAME, "g", 7, 0, topics=[TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 5)])]
                ),
                3,
            ),
        ).result()
        asked = FetchOffsets(OffsetFetchRequestGroup("g", topics=None), require_stable=False)
        assert coordinators.groups.ask("g", asked).result().topics == []
        await coordinators.end(producer, commit=True)
        await trio.testing.wait_all_tasks_blocked()
        (topic,) = coordinators.groups.ask("g", asked).result().topics
        assert topic.partitions[0].committed_offset == 5
        assert await coordinators.state() is TransactionState.COMPLETE_COMMIT


async def test_a_marker_is_retried_only_in_the_partition_that_refused_it(autojump_clock: object) -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin(("a", 0), ("b", 3))
        coordinators.partitions["b", 3].error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        await coordinators.end(producer, commit=True)
        await trio.sleep(1)
        assert await coordinators.state() is TransactionState.PREPARE_COMMIT
        coordinators.partitions["b", 3].error = None
        await trio.sleep(1)
        assert await coordinators.state() is TransactionState.COMPLETE_COMMIT
        assert len(coordinators.markers("a", 0)) == len(coordinators.markers("b", 3)) == 1


async def test_a_marker_that_is_lost_before_it_is_committed_is_written_again(autojump_clock: object) -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin(("a", 0))
        partition = coordinators.partitions["a", 0]
        partition.held = True
        await coordinators.end(producer, commit=True)
        await trio.testing.wait_all_tasks_blocked()
        partition.resign()
        await trio.testing.wait_all_tasks_blocked()
        partition.is_leader, partition.held = True, False
        await trio.sleep(1)
        assert len(coordinators.markers("a", 0)) == 2
        assert await coordinators.state() is TransactionState.COMPLETE_COMMIT


async def test_a_transaction_completes_once_its_log_has_enough_replicas_in_sync(autojump_clock: object) -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin(("a", 0))
        coordinators.partitions["a", 0].held = True
        await coordinators.end(producer, commit=True)
        await trio.testing.wait_all_tasks_blocked()
        coordinators.log.error = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        coordinators.partitions["a", 0].commit()
        await trio.sleep(10)
        assert await coordinators.state() is TransactionState.PREPARE_COMMIT
        coordinators.log.error = None
        await trio.sleep(1)
        assert await coordinators.state() is TransactionState.COMPLETE_COMMIT
        assert len(coordinators.markers("a", 0)) == 1


async def test_a_deleted_partition_needs_no_marker() -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin(("a", 0), ("b", 3))
        del coordinators.partitions["b", 3]
        await coordinators.end(producer, commit=True)
        await trio.testing.wait_all_tasks_blocked()
        assert await coordinators.state() is TransactionState.COMPLETE_COMMIT


async def test_a_partition_that_fences_the_marker_of_an_old_epoch_is_not_retried() -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin(("a", 0))
        coordinators.partitions["a", 0].error = ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
        await coordinators.end(producer, commit=False)
        await trio.testing.wait_all_tasks_blocked()
        assert await coordinators.state() is TransactionState.COMPLETE_ABORT


async def test_a_transaction_prepared_before_a_restart_gets_its_markers_after_it(autojump_clock: object) -> None:
    log = MemoryLog()
    async with hosting(log, writing=False) as coordinators:
        producer = await coordinators.begin(("a", 0))
        await coordinators.end(producer, commit=True)
        await trio.testing.wait_all_tasks_blocked()
        assert coordinators.markers("a", 0) == []
    async with hosting(log) as coordinators:
        await trio.sleep(1)
        assert len(coordinators.markers("a", 0)) == 1
        assert await coordinators.state() is TransactionState.COMPLETE_COMMIT


async def test_no_marker_is_written_before_the_decision_is_committed() -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin(("a", 0))
        coordinators.log.held = True
        async with trio.open_nursery() as nursery:

            async def end() -> None:
                assert await coordinators.end(producer, commit=True) == TransactionAnswer()

            nursery.start_soon(end)
            await trio.testing.wait_all_tasks_blocked()
            assert coordinators.markers("a", 0) == []
            coordinators.log.commit()
            await trio.testing.wait_all_tasks_blocked()
            assert len(coordinators.markers("a", 0)) == 1
            coordinators.log.commit()


async def test_a_marker_is_flushed_if_a_flush_is_due() -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin(("a", 0))
        coordinators.partitions["a", 0].flush_due = True
        await coordinators.end(producer, commit=True)
        await trio.testing.wait_all_tasks_blocked()
        assert coordinators.partitions["a", 0].flushes == 1
        assert await coordinators.state() is TransactionState.COMPLETE_COMMIT


async def test_a_transaction_that_times_out_gets_abort_markers(autojump_clock: object) -> None:
    async with hosting() as coordinators:
        await coordinators.begin(("a", 0))
        coordinators.wall_ms += 60_001
        await trio.sleep(2)
        assert coordinators.markers("a", 0) == [(7, 1, ControlRecord(0, ControlType.ABORT, EndTxnMarker(0)))]
        assert await coordinators.state() is TransactionState.COMPLETE_ABORT


async def test_the_marker_writer_of_a_new_coordinator_epoch_replaces_the_old_one(autojump_clock: object) -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin(("a", 0))
        coordinators.log.leader_epoch = 4
        logs = {0: coordinators.log}
        coordinators.runtime.follow(1, logs)
        coordinators.writer.follow(logs)
        await trio.sleep(1)
        await coordinators.end(producer, commit=True)
        await trio.sleep(1)
        assert coordinators.markers("a", 0) == [(7, 0, ControlRecord(0, ControlType.COMMIT, EndTxnMarker(4)))]


async def test_a_new_transaction_waits_a_limited_time_for_the_markers_of_the_last_one(autojump_clock: object) -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin(("a", 0), version=2)
        coordinators.partitions["a", 0].held = True
        bumped = await coordinators.end(producer, commit=True, version=2)
        log, place = Producers(), TopicPartition("b", 3)

        def admission() -> Admission:
            asked = Admission(bumped.producer_id, bumped.epoch, adds=True, now_ms=WALL_MS)
            asked.begin(place, log, 0)
            return asked

        asked = admission()
        await asked.ask(coordinators.transactions, NAME)
        assert asked.refused == {place: ErrorCode.CONCURRENT_TRANSACTIONS}
        async with trio.open_nursery() as nursery:
            asked = admission()
            nursery.start_soon(asked.ask, coordinators.transactions, NAME)
            await trio.sleep(0.05)
            log.remember_marker(bumped.producer_id, bumped.epoch, 0, 9, WALL_MS, aborted=False)
            coordinators.partitions["a", 0].commit()
        assert asked.refused == {}
        assert asked.verifications[place] is log.verifications.get(bumped.producer_id), (
            "the verification is newer than the one that the marker invalidated"
        )
        assert await coordinators.state() is TransactionState.ONGOING


@pytest.mark.parametrize(
    ("written_after_s", "expected"),
    [(0.09, TransactionAnswer(producer_id=7, epoch=1)), (0.11, TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))],
)
async def test_init_producer_id_waits_a_limited_time_for_the_last_transactions_markers(
    written_after_s: float, expected: TransactionAnswer, autojump_clock: object
) -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin(("a", 0))
        coordinators.partitions["a", 0].held = True
        await coordinators.end(producer, commit=True)
        replies = list[Reply]()

        async def begin() -> None:
            answer = coordinators.transactions.ask(InitProducer(NAME, 60_000), replies.append)
            assert isinstance(answer, Coroutine)
            await answer

        async with trio.open_nursery() as nursery:
            nursery.start_soon(begin)
            await trio.sleep(written_after_s)
            coordinators.partitions["a", 0].commit()
        assert replies == [expected]


async def test_a_producer_that_takes_over_a_transactional_id_waits_for_the_abort() -> None:
    async with hosting() as coordinators:
        await coordinators.begin(("a", 0))
        answer = coordinators.transactions.ask(InitProducer(NAME, 60_000), lambda reply: reply)
        assert isinstance(answer, Coroutine)
        assert await answer == TransactionAnswer(producer_id=7, epoch=2)
        assert await coordinators.state() is TransactionState.EMPTY


async def test_a_caller_that_waits_for_markers_gets_not_coordinator_if_leadership_is_lost() -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin(("a", 0))
        coordinators.partitions["a", 0].held = True
        await coordinators.end(producer, commit=True)
        answer = coordinators.transactions.ask(
            AddPartitions(NAME, 7, 0, frozenset({TopicPartition("b", 3)})), lambda reply: reply
        )
        assert isinstance(answer, Coroutine)

        async def go() -> None:
            await trio.testing.wait_all_tasks_blocked()
            coordinators.runtime.follow(1, {})

        async with trio.open_nursery() as nursery:
            nursery.start_soon(go)
            assert await answer == TransactionAnswer(ErrorCode.NOT_COORDINATOR)


async def test_a_marker_written_before_the_coordinator_is_asked_does_not_invalidate_the_verification() -> None:
    async with hosting() as coordinators:
        producer = await coordinators.begin(("a", 0), version=2)
        bumped = await coordinators.end(producer, commit=True, version=2)
        await trio.testing.wait_all_tasks_blocked()
        log, place = Producers(), TopicPartition("b", 3)
        asked = Admission(bumped.producer_id, bumped.epoch, adds=True, now_ms=WALL_MS)
        asked.begin(place, log, 0)
        log.remember_marker(bumped.producer_id, bumped.epoch, 0, 9, WALL_MS, aborted=False)
        await asked.ask(coordinators.transactions, NAME)
        assert asked.refused == {}
        log.check_verified(bumped.producer_id, bumped.epoch, asked.verifications[place], 0)


@pytest.mark.parametrize(
    ("coordinated", "code", "kept"),
    [(True, ErrorCode.INVALID_PRODUCER_ID_MAPPING, 0), (False, ErrorCode.NOT_COORDINATOR, 1)],
)
async def test_a_partition_keeps_no_verification_after_a_final_refusal(
    coordinated: bool, code: ErrorCode, kept: int
) -> None:
    async with hosting() as coordinators:
        if not coordinated:
            coordinators.runtime.follow(1, {})
        log, place = Producers(), TopicPartition("b", 3)
        asked = Admission(7, 0, adds=False, now_ms=WALL_MS)
        asked.begin(place, log, 0)
        await asked.ask(coordinators.transactions, "nobody")
        assert asked.refused == {place: code}
        assert len(log.verifications) == kept


async def test_verification_returns_an_error_for_each_partition_outside_the_transaction() -> None:
    async with hosting() as coordinators:
        await coordinators.begin(("a", 0))
        places = frozenset({TopicPartition("a", 0), TopicPartition("b", 3)})
        assert await coordinators.transactions.admit(NAME, 7, 0, places, add=False) == {
            ("b", 3): ErrorCode.TRANSACTION_ABORTABLE
        }
        assert await coordinators.transactions.admit(NAME, 8, 0, places, add=False) == dict.fromkeys(
            places, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        )
        assert await coordinators.transactions.admit("", 7, 0, places, add=True) == dict.fromkeys(
            places, ErrorCode.INVALID_REQUEST
        )


async def test_init_producer_id_waits_until_a_producer_id_is_available() -> None:
    async with hosting() as coordinators:
        coordinators.ids.in_hand = False
        assert await coordinators.transactions.send(InitProducer(NAME, 60_000)) == TransactionAnswer(
            producer_id=7, epoch=0
        )
        coordinators.ids.in_hand = False
        refused = await coordinators.transactions.send(InitProducer("other", 60_000))
        assert refused == TransactionAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


async def test_a_request_to_the_wrong_coordinator_gets_not_coordinator() -> None:
    async with hosting() as coordinators:
        coordinators.runtime.follow(1, {})
        assert await coordinators.transactions.send(FindTransaction(NAME)) == TransactionAnswer(
            ErrorCode.NOT_COORDINATOR
        )


async def test_markers_of_a_large_transaction_are_sorted_and_awaited_in_several_steps() -> None:
    turns, appended, awaited_at, left = 0, list[tuple[str, int]](), list[int](), list[Any]()
    places = frozenset(TopicPartition(topic, index) for topic in ("u", "t") for index in range(3 * SORTED_AT_ONCE_MAX))

    class Ending:
        async def wait(self) -> None:
            """Return at once, as if the marker were committed."""
            awaited_at.append(turns)

    def append(topic: str, index: int, marker: Marker) -> Ending:
        if not appended:
            awaited_at.append(turns)
        appended.append((topic, index))
        return Ending()

    nothing: Any = None
    endings: Any = SimpleNamespace(append=append)
    writer = MarkerWriter(nothing, endings, lambda topic, index: True)

    async def write() -> None:
        left.append(await writer._write(Marker(7, 0, True, 0, 2), places))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        while not left:
            await trio.lowlevel.checkpoint()
            turns += 1
    assert (left, appended) == ([frozenset()], sorted(places))
    sorted_by, first_awaited = awaited_at[:2]
    assert sorted_by >= len(places) // SORTED_AT_ONCE_MAX - 1
    assert first_awaited - sorted_by >= len(places) // AT_ONCE_MAX - 1
    assert turns - first_awaited >= len(places) // AT_ONCE_MAX - 1
