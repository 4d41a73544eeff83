"""Tests of the renames of this machine, which Linux and macOS name otherwise."""

from __future__ import annotations

import ctypes
import errno
from pathlib import Path
from types import SimpleNamespace

import pytest

from pykbroker.pipeline.local_files import RENAME_EXCHANGE, RENAME_NOREPLACE, rename

LINUX_HERE, MAC_HERE = -100, -2
RENAME_SWAP, RENAME_EXCL = 2, 4
"""The flags of macOS's renameatx_np."""
LIBC = ctypes.CDLL(None, use_errno=True)


def renameatx_np(of_path: int, path: bytes, of_target: int, target: bytes, flag: int) -> int:
    """Do what macOS does, by renameat2 of Linux."""
    assert of_path == of_target == MAC_HERE
    flags = {RENAME_SWAP: RENAME_EXCHANGE, RENAME_EXCL: RENAME_NOREPLACE}
    return int(LIBC.renameat2(LINUX_HERE, path, LINUX_HERE, target, flags[flag]))


@pytest.mark.skipif(not hasattr(LIBC, "renameat2"), reason="the libc has no renameat2")
@pytest.mark.parametrize("is_mac", [False, True])
def test_directories_are_exchanged_and_files_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_mac: bool
) -> None:
    if is_mac:
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(renameatx_np=renameatx_np))
    one, two = tmp_path / "one", tmp_path / "two"
    for directory in (one, two):
        directory.mkdir()
        (directory / directory.name).touch()
    rename(one, two, RENAME_EXCHANGE)
    assert ((one / "two").exists(), (two / "one").exists()) == (True, True)
    with pytest.raises(FileExistsError):
        rename(one / "two", two / "one", RENAME_NOREPLACE)
    rename(one / "two", two / "two", RENAME_NOREPLACE)
    assert sorted(each.name for each in two.iterdir()) == ["one", "two"]


def test_a_libc_without_such_a_rename_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())
    with pytest.raises(OSError, match="not implemented") as refused:
        rename(tmp_path, tmp_path, RENAME_EXCHANGE)
    assert refused.value.errno == errno.ENOSYS
