"""Tests of power losses at any point of a compacted log's use: in every phase of a swap, and again during recovery.

After the next start all fsynced records are there, consumers find the last value of every key, and producers continue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from pykbroker.sim.crash_points import PowerLoss, Recording
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.power_loss import ALL_KEPT, after_power_loss
from pykbroker.sim.volume import Volume
from pykbroker.storage.log.log import Log
from tests.unit.storage.compacted import RETENTION_MS, Pairs, clean, end, last_values, opened, put
from tests.unit.storage.logs import DIRECTORY, NOW

pytestmark = pytest.mark.timeout(240)  # Seconds of CPU time, which take longer on a busy machine.

KEYS = [b"a", b"b", b"c", b"d" * 30]
STEPS, ENDINGS, SWAP_ENDINGS = 55, 3, 12
Written = tuple[int, int, Pairs | bool]
"""A batch or marker: (first offset, producer id or -1, the key-value pairs or whether the transaction is committed)."""


@dataclass(frozen=True)
class Known:
    """The written batches in order. All records below offset `synced` are durable."""

    written: tuple[Written, ...] = ()
    synced: int = 0

    def expected(self, log_end: int) -> tuple[dict[bytes, bytes], dict[int, int]]:
        """Return the last value of each key and the first offsets of open transactions, for a log that ends at
        `log_end`.
        """
        decided: list[tuple[int, bytes, bytes | None]] = []
        pending: dict[int, list[tuple[int, bytes, bytes | None]]] = {}
        for first, producer, what in self.written:
            if first >= log_end:
                break
            if isinstance(what, bool):
                decided += pending.pop(producer, []) if what else (pending.pop(producer, []) and [])
            else:
                records = [(first + at, *pair) for at, pair in enumerate(what)]
                (decided if producer < 0 else pending.setdefault(producer, [])).extend(records)
        since = {producer: records[0][0] for producer, records in pending.items()}
        stable = min([log_end, *since.values()])
        last = {key: value for offset, key, value in sorted(decided) if offset < stable}
        return {key: value for key, value in last.items() if value is not None}, since


def empty_directory() -> Volume:
    """Return a disk with a durable, empty directory."""
    volume = Volume()
    volume.make_directory(DIRECTORY)
    return after_power_loss(volume, Random(0), ALL_KEPT)


class RecordedLog:
    """A recorded run of a compacted log, and the records known to be in it."""

    def __init__(self, seed: int) -> None:
        self.known = Known()
        self.recording = Recording(self.known, empty_directory())
        self._dice = Random(seed)
        self._open: set[int] = set()
        self.cleaned = 0

    async def run(self) -> None:
        """Write batches, end transactions and compact, while the clock advances."""
        dice, now_ms = self._dice, NOW
        log = await opened(SimDisk(self.recording.volume))
        for _ in range(STEPS):
            step = dice.random()
            if step < 0.7:
                self._put(log, dice.choice([-1, -1, 1, 2]))
            elif step < 0.85 and self._open:
                self._end(log, self._open.pop(), dice.random() < 0.5)
            elif step < 0.9:
                await self._flush(log)
            else:
                await self._flush(log)
                self.cleaned += await clean(log, now_ms, dice.choice([2, 1000]))
                now_ms += RETENTION_MS // 2

    def _put(self, log: Log, producer: int) -> None:
        dice = self._dice
        pairs: Pairs = [
            (dice.choice(KEYS), dice.choice([None, dice.randbytes(dice.randrange(1, 150))]))
            for _ in range(dice.randrange(1, 4))
        ]
        self._note(written=(*self.known.written, (log.log_end_offset, producer, pairs)))
        put(log, pairs, producer)
        self._open |= {producer} - {-1}

    def _end(self, log: Log, producer: int, commit: bool) -> None:
        self._note(written=(*self.known.written, (log.log_end_offset, producer, commit)))
        end(log, producer, commit=commit)

    async def _flush(self, log: Log) -> None:
        await log.flush()
        self._note(synced=log.log_end_offset)

    def _note(self, **news: Any) -> None:
        self.known = replace(self.known, **news)
        self.recording.note(self.known)


async def check(ending: PowerLoss[Known], dice: Random) -> None:
    """Recover the log, in some runs twice, and then compact it."""
    where = f"point {ending.point} ({ending.last_call}), ending {ending.number}"
    volume, known = ending.volume, ending.known
    recovery_point = dice.choice([0, known.synced])
    if not dice.randrange(3):
        again = Recording(known, volume)
        await opened(SimDisk(again.volume), recovery_point=recovery_point)
        volume = again.ending(dice.randrange(len(again.calls) + 1), 0, ending.number).volume
    log = await opened(SimDisk(volume), recovery_point=recovery_point)
    assert log.log_end_offset >= known.synced, where
    expected, since = known.expected(log.log_end_offset)
    for is_cleaned in (False, True):
        if is_cleaned:
            await clean(log, NOW + 10 * RETENTION_MS)
        assert await last_values(log) == expected, where
        assert {
            one.producer_id: one.txn_first_offset for one in log.producers.entries() if one.txn_first_offset >= 0
        } == since, where
    assert not [name for name in log.segments.sealed if name.base_offset > log.log_end_offset], where


@pytest.mark.parametrize("seed", range(2))
async def test_no_crash_loses_the_last_value_of_a_key(seed: int) -> None:
    life = RecordedLog(seed)
    await life.run()
    assert life.cleaned >= 2
    dice = Random(seed)
    phases = Counter(str(call[1][-1]).rpartition(".")[2] for call in life.recording.calls if call[0] == "rename")
    assert phases["swap"] >= 6
    assert phases["deleted"] >= 6
    for ending in life.recording.endings(ENDINGS, seed):
        await check(ending, dice)


async def test_a_kill_in_any_phase_of_a_swap_leaves_no_extra_file() -> None:
    life = RecordedLog(7)
    await life.run()
    for ending in life.recording.endings(1, 7):
        await opened(SimDisk(ending.volume))
        left = ending.volume.find_directory(DIRECTORY).entries
        assert not [name for name in left if name.endswith((".swap", ".cleaned", ".deleted"))]


async def restarted(killed: Recording[Known], point: int) -> Recording[Known]:
    """Record the start after a kill at `point`."""
    again = Recording(killed.ending(point, 0, 0).known, empty_directory())
    for call in killed.calls[:point]:
        again.volume.play(call)
    await opened(SimDisk(again.volume))
    return again


async def test_a_power_loss_after_a_kill_loses_no_segment_that_was_being_swapped() -> None:
    """The start finds `.swap` files that were never fsynced and removes the old files; then the power fails."""
    life, begun = RecordedLog(3), 0
    await life.run()
    calls = [name if name != "rename" else str(args[-1])[-5:] for name, args in life.recording.calls]
    for point in range(1, len(calls)):
        if calls[point - 1] == ".swap" != calls[point]:
            begun += 1
            again = await restarted(life.recording, point)
            removals = [at for at, (name, _) in enumerate(again.calls, 1) if at > point and name == "remove"]
            for ending in again.endings(SWAP_ENDINGS, point, removals):
                log = await opened(SimDisk(ending.volume))
                where = f"killed at {point}, then {ending.last_call}, ending {ending.number}"
                assert log.log_end_offset >= ending.known.synced, where
                assert await last_values(log) == ending.known.expected(log.log_end_offset)[0], where
    assert begun > 5
