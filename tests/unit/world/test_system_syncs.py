"""Tests of fsyncs that are run by a few shared threads."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
import trio

from pykbroker.world.system_off_loop import SystemOffLoop
from pykbroker.world.system_syncs import SYNCS_MAX, THREADS_MAX, Sync, Syncs


async def test_waiting_syncs_of_the_same_file_share_one_fsync() -> None:
    done: list[tuple[str, ...]] = []
    syncs = Syncs(SystemOffLoop())
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(syncs, done.append, ("root",))
    assert done == [("root",)]
    await syncs(done.append, ("root",))
    assert len(done) == 2


@pytest.mark.parametrize(
    ("count", "largest"), [(1, 1), (THREADS_MAX * SYNCS_MAX, SYNCS_MAX), (THREADS_MAX * SYNCS_MAX + 9, SYNCS_MAX)]
)
async def test_each_thread_takes_a_limited_number_of_the_waiting_syncs(count: int, largest: int) -> None:
    hops, done = list[int](), list[int]()

    async def off_loop(function: Callable[[list[Sync]], None], taken: list[Sync]) -> None:
        hops.append(len(taken))
        await trio.lowlevel.checkpoint()
        function(taken)

    syncs = Syncs(off_loop)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(syncs, done.append, number)
    assert sorted(done) == list(range(count))
    assert max(hops) == largest


async def test_only_the_callers_of_a_failed_sync_get_its_error() -> None:
    def fails(number: int) -> None:
        if number == 3:
            raise OSError(errno.EIO, "Input/output error")

    syncs, failed = Syncs(SystemOffLoop()), list[int]()

    async def ask(number: int) -> None:
        try:
            await syncs(fails, number)
        except OSError as failure:
            assert failure.errno == errno.EIO
            failed.append(number)

    async with trio.open_nursery() as nursery:
        for number in (1, 2, 3, 3, 4):
            nursery.start_soon(ask, number)
    assert failed == [3, 3]


async def test_a_cancelled_caller_waits_until_its_sync_has_ended() -> None:
    done: list[int] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        await Syncs(SystemOffLoop())(done.append, 7)
    assert done == [7]


@pytest.mark.parametrize("refused", ["the thread", "a sync"])
async def test_callers_get_an_error_when_a_sync_fails_or_cannot_run(refused: str) -> None:
    """Every caller gets an error, and the next sync succeeds."""
    done: list[int] = []
    fails = True

    async def off_loop(function: Callable[[list[Sync]], None], taken: list[Sync]) -> None:
        await trio.lowlevel.checkpoint()
        if fails and refused == "the thread":
            raise RuntimeError("can't start new thread")
        function(taken)

    def sync(number: int) -> None:
        if fails:
            raise MemoryError
        done.append(number)

    syncs, failed = Syncs(off_loop), list[int]()  # type: ignore[arg-type]

    async def ask(number: int) -> None:
        try:
            await syncs(sync, number)
        except RuntimeError:
            failed.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(ask, number)
    assert (sorted(failed), done) == ([0, 1, 2], [])
    fails = False
    await syncs(sync, 7)
    assert done == [7]
