"""The probe of the room in a log directory."""

from __future__ import annotations

import errno
import threading

import pytest

from pykbroker.storage.files.room import NAME
from pykbroker.world.system_disk import SystemFile
from pykbroker.world.system_off_loop import SystemOffLoop
from tests.unit.storage.real_directory import RealDirectory


async def test_the_probe_does_not_block_the_event_loop(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = await real_dir.open(SystemOffLoop())
    threads: list[int] = []
    append = SystemFile.append

    def noted(file: SystemFile, data: bytes) -> None:
        threads.append(threading.get_ident())
        append(file, data)

    monkeypatch.setattr(SystemFile, "append", noted)
    assert await directory.has_room()
    assert len(threads) == 1
    assert threads != [threading.get_ident()]
    assert not directory.exists(NAME)


@pytest.mark.parametrize(("number", "has_failed"), [(errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EIO, True)])
async def test_only_an_error_of_the_disk_takes_the_directory_offline(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch, number: int, has_failed: bool
) -> None:
    directory = await real_dir.open()

    def refuse(*_: object) -> None:
        raise OSError(number, "refused")

    with monkeypatch.context() as full:
        full.setattr(SystemFile, "append", refuse)
        assert not await directory.has_room()
    assert (directory.failed is not None) is has_failed
    assert not directory.exists(NAME)
