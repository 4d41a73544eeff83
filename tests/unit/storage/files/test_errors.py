"""Tests of `patiently`, which repeats a synchronous call after the disk work that the call needs, up to a limit."""

from __future__ import annotations

import pytest

from pykbroker.storage.files.errors import WAITS_MAX, Pending, patiently
from pykbroker.storage.segments.segment import file_name
from pykbroker.world.disk import MISSES_MAX, NotCached
from pykbroker.world.system_disk import SystemDisk


class Cold:
    """A call that must wait `waits` times before it returns, for each of `kinds` pieces of work in turn."""

    def __init__(self, waits: int, kinds: int = 1) -> None:
        self.waits, self.kinds, self.waited = waits, kinds, 0

    def call(self) -> str:
        if self.waited < self.waits:
            raise Pending(self._work, "load", file_name("topic-0", self.waited % self.kinds, ".log"))
        return "an answer"

    async def _work(self) -> None:
        self.waited += 1


@pytest.mark.parametrize("waits", [0, WAITS_MAX - 1, WAITS_MAX])
async def test_patiently_repeats_disk_work_that_was_undone(waits: int) -> None:
    cold = Cold(waits)
    assert (await patiently(cold.call), cold.waited) == ("an answer", waits)


async def test_patiently_raises_if_disk_work_is_undone_each_time() -> None:
    cold = Cold(WAITS_MAX + 1)
    with pytest.raises(AssertionError, match="had to load topic-0/0{20}.log 10 times, and would have to once more"):
        await patiently(cold.call)
    assert cold.waited == WAITS_MAX


async def test_a_call_may_wait_for_many_different_pieces_of_disk_work() -> None:
    cold = Cold(20_000, kinds=20_000)
    assert (await patiently(cold.call), cold.waited) == ("an answer", 20_000)


@pytest.mark.parametrize("misses", [MISSES_MAX - 1, MISSES_MAX, MISSES_MAX + 1])
async def test_bytes_may_leave_the_page_cache_many_times_on_a_machine_short_of_memory(
    misses: int, disk: SystemDisk
) -> None:
    file, left = disk.open("one", create=True), misses
    file.append(b"abc")

    def read() -> str:
        nonlocal left
        if left:
            left -= 1
            raise NotCached(file, 0, 3)
        return "bytes"

    if misses <= MISSES_MAX:
        assert await patiently(read) == "bytes"
    else:
        with pytest.raises(OSError, match="10000 times, bytes that had just been read were no longer in memory"):
            await patiently(read)
