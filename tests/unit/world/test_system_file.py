"""Tests of macOS's flush and barrier, with a function in place of its fcntl."""

from __future__ import annotations

import errno
import os

import pytest

from pykbroker.world import system_disk
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_file import F_BARRIERFSYNC, F_FULLFSYNC, full_flush, write_barrier
from pykbroker.world.system_off_loop import SystemOffLoop


class Fcntl:
    """An fcntl that refuses some commands, and notes all, with the fsyncs as command 0."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refused: dict[int, int]) -> None:
        self.refused, self.calls = refused, list[int]()
        monkeypatch.setattr(os, "fsync", lambda fd: self(fd, 0))

    def __call__(self, fd: int, command: int) -> None:
        assert fd == 7
        self.calls.append(command)
        if command in self.refused:
            raise OSError(self.refused[command], os.strerror(self.refused[command]))


@pytest.mark.parametrize("refusal", [errno.ENOTSUP, errno.EINVAL, errno.ENOTTY])
def test_a_file_system_without_a_command_gets_the_next_best(monkeypatch: pytest.MonkeyPatch, refusal: int) -> None:
    fcntl = Fcntl(monkeypatch, {})
    write_barrier(7, fcntl)
    full_flush(7, fcntl)
    assert fcntl.calls == [F_BARRIERFSYNC, F_FULLFSYNC]
    fcntl = Fcntl(monkeypatch, {F_BARRIERFSYNC: refusal, F_FULLFSYNC: refusal})
    write_barrier(7, fcntl)
    assert fcntl.calls == [F_BARRIERFSYNC, F_FULLFSYNC, 0]


@pytest.mark.parametrize("command", [F_BARRIERFSYNC, F_FULLFSYNC])
def test_a_failed_flush_is_never_taken_for_a_missing_command(monkeypatch: pytest.MonkeyPatch, command: int) -> None:
    fcntl = Fcntl(monkeypatch, {command: errno.EIO})
    with pytest.raises(OSError, match="Input/output error"):
        (write_barrier if command == F_BARRIERFSYNC else full_flush)(7, fcntl)
    assert fcntl.calls == [command]


async def test_a_barrier_and_a_sync_of_one_file_are_two_calls(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(system_disk, "sync_descriptor", lambda fd: calls.append("sync"))
    monkeypatch.setattr(system_disk, "order_descriptor", lambda fd: calls.append("order"))
    file = SystemDisk(str(tmp_path), SystemOffLoop()).open("one", create=True)
    await file.barrier()
    await file.sync()
    assert calls == ["order", "sync"]
    idle = SystemDisk(str(tmp_path), SystemOffLoop(), durable=False).open("one")
    await idle.barrier()
    await idle.sync()
    assert calls == ["order", "sync"]


async def test_names_are_synced_as_the_system_syncs_a_directory(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(system_disk, "sync_descriptor", lambda fd: calls.append("file"))
    monkeypatch.setattr(system_disk, "sync_directory_descriptor", lambda fd: calls.append("directory"))
    disk = SystemDisk(str(tmp_path), SystemOffLoop())
    disk.open("one", create=True).close()
    await disk.sync_directory("", ("one",))
    assert calls == ["file", "directory"]
