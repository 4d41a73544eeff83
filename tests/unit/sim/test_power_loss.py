"""Tests of simulated power losses: synced bytes stay, and everything that POSIX allows to be lost is lost sometimes."""

from __future__ import annotations

from random import Random

import pytest

from pykbroker.sim.disk import SimDisk
from pykbroker.sim.power_loss import ALL_KEPT, Luck, after_power_loss
from pykbroker.sim.volume import Volume

LOST = Luck(in_order=False, kept=0.0, zeros=0.0, names_in_order=True, names_kept=0.0)


def content(volume: Volume, path: str) -> bytes:
    file = SimDisk(volume).open(path)
    return bytes(file.read_nowait(0, file.size))


async def with_files(*paths: str) -> tuple[Volume, SimDisk]:
    """Return a volume whose empty files have durable names, and a disk on it."""
    volume = Volume()
    disk = SimDisk(volume)
    for path in paths:
        disk.open(path, create=True)
    await disk.sync_directory("")
    return volume, disk


async def test_synced_bytes_stay_and_unsynced_bytes_are_kept_lost_torn_or_zeroed():
    volume, disk = await with_files("f")
    file = disk.open("f")
    file.append(b"A" * 700)
    await file.sync()
    file.append(b"B" * 2000)
    seen = set()
    for seed in range(300):
        found = content(after_power_loss(volume, Random(seed)), "f")
        assert found[:700] == b"A" * 700
        tail = found[700:]
        seen.add("kept" if tail == b"B" * 2000 else "lost" if not tail else "zeros" if b"\0" in tail else "torn")
    assert seen == {"kept", "lost", "torn", "zeros"}
    assert content(volume, "f") == b"A" * 700 + b"B" * 2000


async def test_a_later_write_may_survive_an_earlier_one():
    volume, disk = await with_files("f")
    file = disk.open("f")
    for letter in b"ABCD":
        file.append(bytes([letter]) * 512)
    found = [content(after_power_loss(volume, Random(seed)), "f") for seed in range(200)]
    assert any(b"D" in each and b"A" not in each for each in found)


async def test_a_sector_is_not_torn():
    volume, disk = await with_files("f")
    disk.open("f").append(b"B" * 512)
    for seed in range(100):
        assert content(after_power_loss(volume, Random(seed)), "f") in (b"", b"B" * 512, bytes(512))


async def test_a_rename_is_atomic_and_durable_once_the_directory_is_synced():
    volume, disk = await with_files("meta")
    old, new = disk.open("meta"), disk.open("meta.tmp", create=True)
    old.append(b"old")
    await old.sync()
    new.append(b"new")
    await new.sync()
    disk.rename("meta.tmp", "meta")
    assert {content(after_power_loss(volume, Random(seed)), "meta") for seed in range(100)} == {b"old", b"new"}
    await disk.sync_directory("")
    assert content(after_power_loss(volume, Random(0), LOST), "meta") == b"new"


async def test_a_renamed_file_without_a_sync_may_be_empty():
    volume, disk = await with_files()
    disk.open("meta.tmp", create=True).append(b"new")
    disk.rename("meta.tmp", "meta")
    await disk.sync_directory("")
    assert content(after_power_loss(volume, Random(0), LOST), "meta") == b""


@pytest.mark.parametrize(("luck", "names"), [(LOST, ["kept"]), (ALL_KEPT, ["kept", "new"])])
async def test_a_name_in_a_new_directory_is_durable_once_both_directories_are_synced(luck, names):
    volume = Volume()
    disk = SimDisk(volume)
    disk.make_directory("d")
    disk.open("d/kept", create=True)
    await disk.sync_directory("d")
    assert not SimDisk(after_power_loss(volume, Random(0), LOST)).exists("d")
    await disk.sync_directory("")
    disk.open("d/new", create=True)
    assert SimDisk(after_power_loss(volume, Random(0), luck)).names("d") == names


async def test_a_removed_file_may_reappear():
    volume, disk = await with_files("f")
    file = disk.open("f")
    file.append(b"x")
    await file.sync()
    disk.remove("f")
    assert {SimDisk(after_power_loss(volume, Random(seed))).exists("f") for seed in range(50)} == {True, False}


async def test_an_unsynced_truncation_may_be_undone_below_later_bytes():
    volume, disk = await with_files("f")
    file = disk.open("f")
    file.append(b"A" * 2048)
    await file.sync()
    file.truncate(0)
    file.append(b"B" * 512)
    found = {content(after_power_loss(volume, Random(seed)), "f") for seed in range(200)}
    assert {b"B" * 512, b"B" * 512 + b"A" * 1536, b"A" * 2048, b""} <= found


async def test_a_sync_covers_only_bytes_written_before_it_began():
    volume, disk = await with_files("f")
    file = disk.open("f")
    file.append(b"1")
    mark = volume.files[0].unsynced.mark
    file.append(b"2")
    volume.sync(0, mark)
    assert content(after_power_loss(volume, Random(0), LOST), "f") == b"1"
    assert content(after_power_loss(volume, Random(0), ALL_KEPT), "f") == b"12"
