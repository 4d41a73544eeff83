"""Tests of the real disk: atomic appends, reads that do not wait, and locks."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.names import CLUSTER_METADATA_TOPIC
from pykbroker.quorum.bootstrap_file import BOOTSTRAP_FILE
from pykbroker.storage.files.reading import read_file
from pykbroker.world import system_disk
from pykbroker.world.disk import FileSlice, Locked, NotCached, Shortened
from pykbroker.world.system_disk import SystemDisk, SystemFile
from pykbroker.world.system_off_loop import SystemOffLoop
from pykbroker.world.warm_ranges import APPENDED_BYTES_MAX, RANGES_MAX, WarmRanges


@pytest.fixture
def disk(tmp_path: Path) -> SystemDisk:
    return SystemDisk(str(tmp_path / "log"), SystemOffLoop())


async def test_appended_bytes_can_be_read(disk: SystemDisk) -> None:
    file = disk.open("one", create=True)
    assert [file.append(data) for data in (b"abc", bytearray(b"de"), memoryview(b"f"))] == [3, 5, 6]
    assert bytes(file.read_nowait(1, 3)) == b"bcd"
    assert bytes(file.read_nowait(4, 100)) == b"ef"
    assert bytes(await file.read(4, 100)) == b"ef"
    await file.sync()
    file.truncate(2)
    file.append(b"x")
    assert disk.size("one") == disk.open("one").size == 3
    assert bytes(disk.open("one").read_nowait(0, 3)) == b"abx"


def test_only_the_user_of_the_broker_can_read_files_of_the_metadata_log(disk: SystemDisk, tmp_path: Path) -> None:
    directory, umask = f"{CLUSTER_METADATA_TOPIC}-0", os.umask(0)
    try:
        for path in (directory, "t-0"):
            disk.make_directory(path)
        for path, mode in (
            (f"{directory}/00000000000000000000.log", 0o600),
            (f"{directory}/00000000000000000001-0000000001.checkpoint.part", 0o600),
            (f"{BOOTSTRAP_FILE}.tmp", 0o600),
            ("t-0/00000000000000000000.log", 0o644),
        ):
            disk.open(path, create=True).close()
            assert stat.S_IMODE(os.stat(tmp_path / "log" / path).st_mode) == mode
    finally:
        os.umask(umask)


@pytest.mark.parametrize("waits", [True, False])
async def test_reading_a_file_that_another_process_truncated_raises_shortened(disk: SystemDisk, waits: bool) -> None:
    file = disk.open("one", create=True)
    file.append(b"abcdef")
    os.truncate(file.path, 4)
    if not waits:
        file._warm = WarmRanges(0)
    with pytest.raises(NotCached if waits else Shortened):
        file.read_nowait(1, 5)
    with pytest.raises(Shortened, match="ends before byte 6"):
        await file.read(1, 5)
    assert bytes(await file.read(0, 4)) == b"abcd"


@pytest.mark.parametrize("written", [0, 1, 4])
def test_a_failed_append_leaves_the_file_unchanged(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    file = disk.open("one", create=True)
    file.append(b"before")

    def write(fd: int, data: Any, offset: int) -> int:
        if offset > 6 or not written:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.pwrite(fd, data[:written], offset)

    with monkeypatch.context() as patch:
        patch.setattr(system_disk, "pwrite", write)
        with pytest.raises(OSError, match="No space"):
            file.append(b"after")
    assert file.size == disk.size("one") == 6
    file.append(b"!")
    assert bytes(file.read_nowait(0, 10)) == b"before!"


def test_a_short_write_is_completed(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("one", create=True)
    monkeypatch.setattr(system_disk, "pwrite", lambda fd, data, offset: os.pwrite(fd, data[:2], offset))
    assert file.append(b"abcdefg") == 7
    assert bytes(file.read_nowait(0, 7)) == b"abcdefg"


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the platform cannot read without waiting")
@pytest.mark.parametrize("cached", [0, 2])
def test_a_read_that_would_wait_raises_not_cached(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch, cached: int
) -> None:
    file = disk.open("one", create=True)
    file.append(b"abcdef")

    def preadv(*_: Any) -> int:
        if not cached:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return cached

    monkeypatch.setattr(os, "preadv", preadv)
    with pytest.raises(NotCached):
        file.read_nowait(0, 6)


async def test_fetch_loads_missing_bytes_into_the_page_cache(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("one", create=True)
    file.append(b"abcdef")
    asked = []

    async def read(file: SystemFile, offset: int, size: int) -> None:
        asked.append((offset, size))

    monkeypatch.setattr(SystemFile, "read", read)
    await NotCached(file, 1, 4).fetch()
    assert asked == [(1, 4)]


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the platform cannot read without waiting")
@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL])
async def test_reads_do_not_use_nowait_if_the_kernel_refuses_it(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    file = disk.open("one", create=True)
    file.append(b"abcdef")
    calls = []

    def refuse(*_: Any) -> int:
        calls.append(1)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "preadv", refuse)
    assert [bytes(await read_file(file, at, 2)) for at in (0, 2, 4)] == [b"ab", b"cd", b"ef"]
    assert len(calls) == 1


async def test_cold_bytes_are_read_in_a_thread_where_no_read_refuses_to_wait(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_disk, "NO_WAIT", 0)
    monkeypatch.setattr(system_disk, "READ_AHEAD_BYTES", 4)
    disk.open("one", create=True).append(b"abcdefgh")
    file = disk.open("one")
    for start, size in ((0, 1), (7, 1), (0, 8)):
        with pytest.raises(NotCached):
            file.read_nowait(start, size)
    assert await file.read(1, 2) == b"bc"
    assert file.read_nowait(1, 4) == b"bcde", "the thread has read ahead"
    for start in (0, 4):
        with pytest.raises(NotCached):
            file.read_nowait(start, 2)
    file.append(b"ijk")
    assert file.read_nowait(8, 3) == b"ijk", "what was appended here is warm"
    file.truncate(6)
    file.append(b"XY")
    assert file.read_nowait(6, 2) == b"XY"
    missing = NotCached(file, 0, 8)
    await missing.fetch()
    assert file.read_nowait(0, 8) == b"abcdefXY"


def test_only_the_last_ranges_and_the_end_of_what_was_appended_are_warm() -> None:
    warm = WarmRanges(0)
    grown = APPENDED_BYTES_MAX + 10
    assert [warm.has(start, grown, grown) for start in (9, 10, 11)] == [False, True, True]
    warm = WarmRanges(1000)
    for start in range(RANGES_MAX + 1):
        warm.add(10 * start, 10 * start + 10)
    assert [warm.has(10 * start, 10 * start + 10, 1000) for start in (0, 1, RANGES_MAX)] == [False, True, True]
    assert not warm.has(10, 21, 1000), "two ranges that adjoin are two reads"


def test_a_closed_file_has_no_descriptor(disk: SystemDisk) -> None:
    file = disk.open("one", create=True)
    file.append(b"abcdef")
    part = FileSlice(file, 2, 3)
    assert len(part) == 3
    assert file.fileno() >= 0
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.fileno()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read_nowait(0, 1)


def test_an_unreferenced_file_closes_its_descriptor(disk: SystemDisk) -> None:
    file: SystemFile | None = disk.open("one", create=True)
    assert file is not None
    fd = file.fileno()
    part: FileSlice | None = FileSlice(file, 0, 0)
    file = None
    os.fstat(fd)
    assert part is not None
    part = None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


async def test_files_can_be_listed_renamed_and_removed(disk: SystemDisk) -> None:
    disk.make_directory("b")
    disk.open("a", create=True)
    disk.open("b/c", create=True)
    assert (disk.names(""), disk.names("b")) == (["a", "b"], ["c"])
    assert [disk.exists(name) for name in ("a", "b", "b/c", "d")] == [True, True, True, False]
    assert [disk.is_directory(name) for name in ("a", "b", "d")] == [False, True, False]
    disk.rename("a", "b/c")
    disk.remove("b/c")
    disk.remove("b")
    await disk.sync_directory("")
    assert disk.names("") == []
    assert 0 < disk.free_bytes() <= disk.total_bytes()
    with pytest.raises(FileNotFoundError):
        disk.open("a")


def test_a_protected_file_can_be_read_by_a_user_other_than_root(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.open("one", create=True).append(b"abc")
    disk.protect("one")
    opened = os.open

    def open_for_nobody(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR and os.path.exists(path) and not os.stat(path).st_mode & 0o200:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", open_for_nobody)
    file = disk.open("one")
    assert bytes(file.read_nowait(0, 3)) == b"abc"
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.append(b"d")
    with pytest.raises(PermissionError):
        disk.open("one", create=True)
    disk.remove("one")


def test_a_locked_directory_refuses_a_second_lock(disk: SystemDisk, tmp_path: Path) -> None:
    disk.lock(".lock")
    with pytest.raises(Locked):
        SystemDisk(str(tmp_path / "log"), SystemOffLoop()).lock(".lock")
    script = (
        "import sys; from pykbroker.world.disk import Locked\n"
        "from pykbroker.world.system_disk import SystemDisk\n"
        "from pykbroker.world.system_off_loop import SystemOffLoop\n"
        "disk = SystemDisk(sys.argv[1], SystemOffLoop())\n"
        "try:\n    disk.lock('.lock')\nexcept Locked as held:\n    print(held)\n    sys.exit(3)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "log")]
    refused = subprocess.run(command, check=False, cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert refused.returncode == 3
    holder = f"process {os.getpid()} holds " if sys.platform == "linux" else ""
    assert refused.stdout == f"{holder}{tmp_path}/log/.lock\n" or not holder
    disk.unlock(".lock")
    assert not disk.exists(".lock")
    assert subprocess.run(command, check=False, cwd=Path(__file__).parents[3]).returncode == 0


async def test_a_disk_that_is_not_durable_never_fsyncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(system_disk, "sync_descriptor", synced.append)
    for durable in (False, True):
        file = SystemDisk(str(tmp_path), SystemOffLoop(), durable=durable).open("one", create=True)
        await file.sync()
    assert len(synced) == 1
