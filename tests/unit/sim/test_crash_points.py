"""Tests of recorded crashes: a log without checksums is caught, and the broker's own log loses no durable record.

CRASH_SEEDS=6 in the environment records that many lives of a log instead of two.
"""

from __future__ import annotations

import os

import pytest
from fastcrc.crc32 import iscsi

from pykbroker.sim.crash_points import Recording
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.log_life import crashes, lived
from pykbroker.sim.volume import Volume

pytestmark = pytest.mark.timeout(240)  # The tests need seconds of CPU time, which take longer on a busy machine.

SEEDS = range(1, 1 + int(os.environ.get("CRASH_SEEDS", "2")))
STEPS, ENDINGS_OF_A_POINT = 200, 12
WORDS = [bytes([letter]) * 700 for letter in b"ABCDEFGH"]


def content(volume: Volume, path: str) -> bytes:
    file = SimDisk(volume).open(path)
    return bytes(file.read_nowait(0, file.size))


def framed(word: bytes) -> bytes:
    return len(word).to_bytes(4, "big") + iscsi(word).to_bytes(4, "big") + word


def words(data: bytes, *, check: bool) -> list[bytes]:
    """Return the frames before the first that is truncated or has a wrong checksum."""
    found = []
    while len(data) >= 8:
        size, crc = int.from_bytes(data[:4], "big"), int.from_bytes(data[4:8], "big")
        word, data = data[8 : 8 + size], data[8 + size :]
        if not size or len(word) < size or (check and iscsi(word) != crc):
            break
        found.append(word)
    return found


async def recorded_words() -> Recording[tuple[int, int]]:
    """Record a run that writes words to a file and syncs every second one; note (words written, words synced)."""
    recording = Recording((0, 0))
    disk = SimDisk(recording.volume)
    file, synced = disk.open("words", create=True), 0
    await disk.sync_directory("")
    for count, word in enumerate(WORDS, 1):
        recording.note((count, synced))
        file.append(framed(word))
        if count % 2 == 0:
            await file.sync()
            synced = count
            recording.note((count, synced))
    return recording


async def test_a_log_with_checksums_keeps_synced_words_and_returns_no_torn_word():
    seen = set()
    for ending in (await recorded_words()).endings(per_point=50, seed=1, points=range(2, 15)):
        found = words(content(ending.volume, "words"), check=True)
        begun, synced = ending.known
        assert found == WORDS[: len(found)]
        assert synced <= len(found) <= begun
        seen.add(len(found) - synced)
    assert seen == {0, 1, 2}


async def test_a_log_without_checksums_returns_torn_words():
    endings = (await recorded_words()).endings(per_point=50, seed=1, points=range(2, 15))
    found = [words(content(ending.volume, "words"), check=False) for ending in endings]
    assert any(each != WORDS[: len(each)] for each in found)


async def test_the_same_seed_gives_the_same_crash():
    recording = await recorded_words()
    for ending in recording.endings(per_point=3, seed=7, points=[4, 9]):
        again = recording.ending(ending.point, ending.number, 7)
        assert content(again.volume, "words") == content(ending.volume, "words")
        assert (again.known, again.last_call) == (ending.known, ending.last_call)


async def test_a_recording_may_start_from_the_volume_of_a_crash():
    ending = (await recorded_words()).ending(point=14, number=0, seed=1)
    later = Recording("recovery", ending.volume)
    SimDisk(later.volume).open("words").truncate(100)
    assert {len(content(each.volume, "words")) for each in later.endings(per_point=20, seed=1)} > {100}
    assert len(content(ending.volume, "words")) != 100


async def test_the_recorded_run_of_a_log_has_all_kinds_of_disk_operations():
    life = await lived(1, STEPS)
    names = {name for name, _ in life.recording.calls}
    assert names >= {"create", "write", "sync", "rename", "sync_directory"}
    assert life.known.synced > 100
    assert life.known.recovery_point > 100
    assert life.known.deleted > 100
    assert life.known.log_start_offset > 0
    assert any(name == "remove" and str(args).endswith(".log.deleted',)") for name, args in life.recording.calls)
    assert sum(str(args).endswith(".log',)") for _, args in life.recording.calls) > 3


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_log_recovers_from_every_recorded_crash(seed):
    checked = 0
    async for _ in crashes(seed, STEPS, ENDINGS_OF_A_POINT):
        checked += 1
    assert checked > 2500
