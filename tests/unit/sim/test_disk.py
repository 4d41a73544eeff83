"""Tests of the simulated disk: it behaves like the real one, and fails as the configured faults say."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykbroker.sim.disk import DiskFaults, SimDisk
from pykbroker.sim.volume import Volume
from pykbroker.world.disk import Disk, Locked, NotCached
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_off_loop import SystemOffLoop

NAMES = ("a", "b", "d", "d/a", "d/b", "e", "e/x", "nowhere/a")


def outcome(step, *args, **named):
    """Return the result of an operation, or the type of its error."""
    try:
        return step(*args, **named)
    except OSError as error:
        return type(error), error.errno


def random_steps(dice: Random, disk: Disk):
    """Yield the results of random operations on this disk."""
    files: dict[str, Any] = {}
    for _ in range(300):
        path, other, data = dice.choice(NAMES), dice.choice(NAMES), dice.randbytes(dice.randrange(2000))
        offset, size, which = dice.randrange(3000), dice.randrange(3000), dice.randrange(10)
        file = files.get(path)
        if which < 2:
            found = outcome(disk.open, path, create=dice.random() < 0.7)
            if not isinstance(found, tuple):
                files[path], found = found, "open"
            yield which, path, found
        elif which < 4 and file is not None:
            yield which, path, file.append(data), file.size
        elif which < 5 and file is not None and offset < file.size:
            yield which, path, bytes(file.read_nowait(offset, size))
        elif which < 6 and file is not None:
            file.truncate(file.size // 2)
            yield which, path, file.size
        elif which == 6:
            yield which, path, outcome(disk.make_directory, path)
        elif which == 7 and path.rpartition("/")[0] == other.rpartition("/")[0]:
            files.clear()  # Only one handle per file, since a second one would not know the size.
            yield which, path, other, outcome(disk.rename, path, other)
        elif which == 8:
            yield which, path, outcome(disk.remove, path)
        else:
            yield path, disk.exists(path), disk.is_directory(path), outcome(disk.names, path), disk.names("")


@pytest.mark.parametrize("seed", range(20))
async def test_the_simulated_disk_has_the_same_results_as_the_real_one(tmp_path: Path, seed):
    real = list(random_steps(Random(seed), SystemDisk(str(tmp_path), SystemOffLoop())))
    simulated = list(random_steps(Random(seed), SimDisk(Volume())))
    assert simulated == real


@pytest.mark.parametrize("kind", ["real", "simulated"])
async def test_a_disk_knows_when_the_content_of_a_file_last_changed(tmp_path: Path, kind: str):
    now_ms = 0
    if kind == "real":
        disk: Disk = SystemDisk(str(tmp_path), SystemOffLoop())
    else:
        disk = SimDisk(Volume(), wall_ms=lambda: now_ms)
    file, old_ms = disk.open("f", create=True), 1_600_000_000_123
    changes = (lambda: file.append(b"abc"), lambda: file.write_over(1, b"x"), lambda: file.truncate(1))
    for change in changes:
        disk.set_modified_ms("f", old_ms)
        disk.rename("f", "g")
        assert disk.modified_ms("g") == old_ms
        now_ms += 1
        change()
        assert disk.modified_ms("g") == now_ms if kind == "simulated" else disk.modified_ms("g") > old_ms
        disk.rename("g", "f")
    with pytest.raises(FileNotFoundError):
        disk.modified_ms("missing")


async def test_a_closed_file_and_a_locked_file_are_refused():
    volume = Volume()
    disk, other = SimDisk(volume), SimDisk(volume)
    file = disk.open("f", create=True)
    file.close()
    assert outcome(file.append, b"x")[1] == errno.EBADF
    disk.lock(".lock")
    with pytest.raises(Locked):
        other.lock(".lock")
    disk.release()
    other.lock(".lock")
    other.unlock(".lock")
    assert not disk.exists(".lock")


async def test_a_write_to_a_full_disk_writes_everything_or_nothing():
    disk = SimDisk(Volume(), faults=DiskFaults(room_bytes=1000))
    file = disk.open("f", create=True)
    file.append(bytes(600))
    assert outcome(file.append, bytes(600)) == (OSError, errno.ENOSPC)
    assert file.size == 600
    assert disk.free_bytes() == 400
    file.append(bytes(400))
    assert outcome(disk.open, "g", create=True) == (OSError, errno.ENOSPC)
    file.truncate(100)
    assert file.append(b"again") == 105


async def test_bytes_of_a_failed_sync_can_be_read_but_are_not_durable():
    volume, faults = Volume(), DiskFaults(sync_fails=1.0)
    disk = SimDisk(volume, faults=faults)
    file = disk.open("f", create=True)
    file.append(b"precious")
    with pytest.raises(OSError, match="Input/output"):
        await file.sync()
    faults.sync_fails = 0.0
    await file.sync()
    assert file.read_nowait(0, 8) == b"precious"
    assert volume.files[0].durable == b""


async def test_faults_make_reads_and_writes_fail_and_reads_miss_the_page_cache():
    faults = DiskFaults(not_cached=1.0)
    disk = SimDisk(Volume(), faults=faults)
    file = disk.open("f", create=True)
    file.append(b"content")
    with pytest.raises(NotCached) as missing:
        file.read_nowait(0, 7)
    await missing.value.fetch()
    assert file.read_nowait(0, 7) == b"content"
    faults.read_fails = faults.write_fails = 1.0
    with pytest.raises(OSError, match="Input/output"):
        await file.read(0, 7)
    with pytest.raises(OSError, match="Input/output"):
        file.append(b"more")
    assert faults.happened == {"not cached": 1, "read failed": 1, "write failed": 1}


async def test_a_flipped_bit_is_returned_by_reads():
    volume = Volume()
    file = SimDisk(volume).open("f", create=True)
    file.append(b"\x00\x00")
    await file.sync()
    volume.flip(0, 1, 3)
    assert file.read_nowait(0, 2) == b"\x00\x08"
