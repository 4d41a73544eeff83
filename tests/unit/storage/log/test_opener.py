"""Tests of the opener: it decompresses the batches of all logs, a few at a time, in the order of the calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.log.opener import OPENED_AT_ONCE_MAX, Opener
from pykbroker.storage.log.rewrite import LongWork
from pykbroker.storage.segments.config import LogConfig
from pykbroker.world.system_disk import SystemDisk
from tests.unit.storage.logs import batch
from wire.records.compression import Codec

T = TypeVar("T")
NOW = 1_700_000_000_000


class Gate:
    """A double of `OffLoop` whose functions end one by one, when the test lets them."""

    def __init__(self) -> None:
        self.begun: list[object] = []
        self._turns = trio.Semaphore(0)

    async def __call__(self, function: Callable[..., T], *args: object) -> T:
        self.begun.append(args[0])
        await self._turns.acquire()
        return function(*args)

    async def let_one_end(self) -> None:
        self._turns.release()
        await wait_all_tasks_blocked()


@pytest.mark.parametrize("calls", [OPENED_AT_ONCE_MAX - 1, OPENED_AT_ONCE_MAX, OPENED_AT_ONCE_MAX + 1, 5])
async def test_at_most_two_batches_are_decompressed_at_a_time_and_others_wait_in_order(calls: int) -> None:
    gate = Gate()
    opener = Opener(gate)
    async with trio.open_nursery() as nursery:
        for number in range(calls):
            nursery.start_soon(opener, str, number)
            await wait_all_tasks_blocked()
        for ended in range(calls):
            assert gate.begun == list(range(min(calls, OPENED_AT_ONCE_MAX + ended)))
            await gate.let_one_end()


async def test_a_failed_or_cancelled_call_does_not_block_later_calls() -> None:
    opener = Opener(InlineOffLoop())
    for _ in range(2 * OPENED_AT_ONCE_MAX):
        with pytest.raises(ValueError, match="invalid literal"):
            await opener(int, "no number")
        with trio.CancelScope() as scope:
            scope.cancel()
            await opener(int, "1")
    assert await opener(int, "1") == 1


async def test_the_logs_of_all_directories_share_one_opener(tmp_path: Path) -> None:
    gate, data = Gate(), batch(bytes(2 << 20), codec=Codec.LZ4)
    opener = Opener(gate)
    async with trio.open_nursery() as nursery:
        for path in ("a", "b"):
            directory = await LogDirectory.open(
                SystemDisk(str(tmp_path / path), InlineOffLoop(), durable=False),
                off_loop=InlineOffLoop(),
                wall_ms=lambda: NOW,
                jitter=lambda: 0.5,
                opener=opener,
            )
            for index in range(OPENED_AT_ONCE_MAX):
                log = await directory.create_log(
                    TopicPartition("topic", index), bytes(16), LogConfig(validate_records=True)
                )
                with pytest.raises(LongWork):
                    log.appender.append(data, 0, NOW)
                nursery.start_soon(log.appender.open_off_loop, data, NOW)
        await wait_all_tasks_blocked()
        assert len(gate.begun) == OPENED_AT_ONCE_MAX
        for _ in range(2 * OPENED_AT_ONCE_MAX):
            await gate.let_one_end()
