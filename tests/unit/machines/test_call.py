"""Tests of calls that several tasks wait for."""

from __future__ import annotations

import trio
import trio.testing

from pykbroker.machines.call import Call


async def test_several_tasks_may_wait_for_one_call() -> None:
    call, results = Call(), list[int]()

    async def wait() -> None:
        results.append(await call.wait())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        call.settle(5)
    assert results == [5, 5, 5]
