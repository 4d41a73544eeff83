"""Tests of the controller: flushes that requests share, responses after commits, and a stop if the log fails."""

from __future__ import annotations

import errno
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.record import Record
from pykbroker.core.outcome import Entry
from pykbroker.quorum.controller import Controller, JournalFailed
from pykbroker.world.turns import SHARE_NS, Turns
from tests.unit.core.metadata.harness import topic
from tests.unit.quorum.logs import MemoryJournal, disk_at, follow, in_memory
from wire.error_codes import ErrorCode
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from wire.messages.delete_topics import DeleteTopicsRequest


def creating(*names: str, timeout_ms: int = 60_000) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[topic(name) for name in names], timeout_ms=timeout_ms)


async def test_a_topic_is_created_committed_and_applied(tmp_path: Path) -> None:
    journal = MemoryJournal()
    controller = in_memory(journal, disk_at(tmp_path))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.run)
        nursery.start_soon(follow, controller)
        response = await controller.ask(creating("a", "b"))
        assert [result.error_code for result in response.topics] == [0, 0]
        assert set(controller.images.current.topics.by_name) == {"a", "b"}
        assert controller.images.current.offset == journal.log_end_offset - 1
        grown = CreatePartitionsTopic(name="a", count=2, assignments=None)
        assert (
            not (await controller.ask(CreatePartitionsRequest(topics=[grown], timeout_ms=1000))).results[0].error_code
        )
        assert len(controller.images.current.topics.by_name["a"].partitions) == 2
        await controller.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000))
        assert set(controller.images.current.topics.by_name) == {"b"}
        nursery.cancel_scope.cancel()
    await controller.close()
    assert journal.closed


async def test_concurrent_requests_share_a_flush_and_see_each_others_effects(tmp_path: Path) -> None:
    journal = MemoryJournal()
    controller = in_memory(journal, disk_at(tmp_path))
    answers: list[CreateTopicsResponse] = []

    async def ask(*names: str) -> None:
        answers.append(await controller.ask(creating(*names)))

    journal.gate = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.run)
        nursery.start_soon(follow, controller)
        nursery.start_soon(ask, "first")
        await trio.testing.wait_all_tasks_blocked()
        assert journal.flushes == 1
        for number in range(50):
            nursery.start_soon(ask, f"t{number // 2}")
        await trio.testing.wait_all_tasks_blocked()
        assert (journal.flushes, answers) == (1, [])
        journal.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert journal.flushes == 2
        nursery.cancel_scope.cancel()
    codes = [response.topics[0].error_code for response in answers]
    assert (codes.count(0), codes.count(ErrorCode.TOPIC_ALREADY_EXISTS)) == (26, 25)


async def test_a_response_without_records_waits_until_earlier_records_are_committed(tmp_path: Path) -> None:
    journal = MemoryJournal()
    journal.gate = trio.Event()
    controller = in_memory(journal, disk_at(tmp_path))
    answers: list[CreateTopicsResponse] = []

    async def ask() -> None:
        answers.append(await controller.ask(creating("a")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.run)
        nursery.start_soon(follow, controller)
        nursery.start_soon(ask)
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert not answers
        journal.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(answers) == 2
        nursery.cancel_scope.cancel()


async def test_a_request_that_writes_no_records_needs_no_flush(tmp_path: Path) -> None:
    journal = MemoryJournal()
    controller = in_memory(journal, disk_at(tmp_path))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.run)
        nursery.start_soon(follow, controller)
        await controller.ask(CreateTopicsRequest(topics=[topic("a")], validate_only=True))
        nursery.cancel_scope.cancel()
    assert (journal.flushes, journal.batches) == (0, [])


async def test_a_request_whose_batch_is_too_large_is_refused_without_effect(tmp_path: Path) -> None:
    journal = MemoryJournal()
    controller = in_memory(journal, disk_at(tmp_path))
    long = "x" * 30_000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.run)
        nursery.start_soon(follow, controller)
        with pytest.raises(ApiError) as refused:
            await controller.ask(
                CreateTopicsRequest(topics=[topic(f"t{number}", cleanup_policy=long) for number in range(300)])
            )
        assert refused.value.code is ErrorCode.POLICY_VIOLATION
        assert not (await controller.ask(creating("t0"))).topics[0].error_code
        nursery.cancel_scope.cancel()
    assert len(journal.batches) == 1


async def test_a_request_waits_for_a_slow_subscriber_no_longer_than_its_timeout(
    autojump_clock: Any, tmp_path: Path
) -> None:
    controller = in_memory(MemoryJournal(), disk_at(tmp_path))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.run)
        started = trio.current_time()
        with pytest.raises(ApiError) as refused:
            await controller.ask(creating("a", timeout_ms=5000))
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert trio.current_time() - started == 5
        assert "a" in controller.images.committed.topics.by_name
        nursery.cancel_scope.cancel()


async def expect_journal_failed(controller: Controller) -> None:
    with pytest.raises(JournalFailed):
        await controller.run()


async def refused(call: Any) -> None:
    with pytest.raises(ApiError) as error:
        await call()
    assert error.value.code is ErrorCode.NOT_CONTROLLER


async def test_a_failed_flush_stops_the_controller_and_refuses_all_waiting_requests(tmp_path: Path) -> None:
    journal = MemoryJournal()
    journal.gate = trio.Event()
    controller = in_memory(journal, disk_at(tmp_path))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_journal_failed, controller)
        nursery.start_soon(refused, partial(controller.ask, creating("a")))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(refused, partial(controller.ask, creating("b")))
        await trio.testing.wait_all_tasks_blocked()
        journal.flush_error = OSError("gone")
        journal.gate.set()
    await refused(partial(controller.ask, creating("c")))
    assert "a" not in controller.images.committed.topics.by_name


async def test_a_failed_append_stops_the_controller(tmp_path: Path) -> None:
    journal = MemoryJournal()
    journal.gate = trio.Event()
    controller = in_memory(journal, disk_at(tmp_path))
    async with trio.open_nursery() as nursery:
        for name in "ab":
            nursery.start_soon(refused, partial(controller.ask, creating(name)))
        nursery.start_soon(expect_journal_failed, controller)
        await trio.testing.wait_all_tasks_blocked()
        journal.append_error = OSError("gone")
        await refused(partial(controller.ask, creating("c")))
    assert not controller.images.committed.topics.by_name


async def test_allocated_producer_ids_do_not_wait_for_a_subscriber(tmp_path: Path) -> None:
    controller = in_memory(MemoryJournal(), disk_at(tmp_path))
    epoch = controller.images.committed.cluster.brokers[1].epoch
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.run)
        response = await controller.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))
        assert (response.producer_id_start, response.producer_id_len) == (0, 1000)
        with pytest.raises(ApiError, match="Expected broker epoch"):
            await controller.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 1))
        nursery.cancel_scope.cancel()


async def test_a_full_disk_refuses_a_request_and_the_next_one_succeeds_once_there_is_space(tmp_path: Path) -> None:
    journal = MemoryJournal()
    controller = in_memory(journal, disk_at(tmp_path))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.run)
        nursery.start_soon(follow, controller)
        end = journal.log_end_offset
        journal.append_error = OSError(errno.ENOSPC, "No space left on device")
        with pytest.raises(ApiError) as refused:
            await controller.ask(creating("a"))
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert journal.log_end_offset == end
        journal.append_error = None
        response = await controller.ask(creating("a"))
        assert [result.error_code for result in response.topics] == [0]
        nursery.cancel_scope.cancel()
    await controller.close()


async def test_the_image_of_a_request_that_fails_halfway_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit falls due while a request is being replayed, and the request fails between two of its records."""
    journal = MemoryJournal()
    controller = in_memory(journal, disk_at(tmp_path))
    monkeypatch.setattr(controller._shell._work, "_turns", Turns(count(0, SHARE_NS + 1).__next__))
    replay = controller._driver.machine.replay

    def broken(entry: Entry[Record]) -> None:
        if entry.offset == 100:
            raise ZeroDivisionError
        replay(entry)

    async def fail() -> None:
        with pytest.raises(ZeroDivisionError):
            await controller.ask(creating(*(f"t{number}" for number in range(100))))

    monkeypatch.setattr(controller._driver.machine, "replay", broken)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail)
        while not controller._shell._work.under_way:
            await trio.lowlevel.checkpoint()
        controller._shell._replies._due.set()
        nursery.start_soon(expect_journal_failed, controller)
    assert journal.flushes == 0
    assert not controller.images.committed.topics.by_name
