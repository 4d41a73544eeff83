"""Tests of temporary directories and their removal."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pykbroker.world.temporary import REMOVED_AT_ONCE, remove_tree, temporary_directory


def test_a_directory_with_more_partitions_than_are_removed_at_once_is_removed() -> None:
    with temporary_directory("kept-") as directory:
        assert Path(directory).name.startswith("kept-")
        for partition in range(2 * REMOVED_AT_ONCE + 1):
            inner = Path(directory, f"t-{partition}", "inner")
            inner.mkdir(parents=True)
            inner.joinpath("file").touch()
        Path(directory, "file").touch()
    assert not Path(directory).exists()


def test_an_empty_directory_is_removed_and_a_missing_one_is_no_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for _ in range(2):
        remove_tree(str(empty))
        assert not empty.exists()


def test_what_a_link_names_is_kept(tmp_path: Path) -> None:
    kept, removed = tmp_path / "kept", tmp_path / "removed"
    kept.mkdir()
    kept.joinpath("file").touch()
    removed.mkdir()
    removed.joinpath("link").symlink_to(kept)
    remove_tree(str(removed))
    assert not removed.exists()
    assert kept.joinpath("file").exists()


LEFT_OPEN = """
from pathlib import Path
from pykbroker.world.temporary import temporary_directory
block = temporary_directory()
directory = block.__enter__()
Path(directory, "file").touch()
print(directory)
"""


def test_a_program_that_leaves_the_block_open_ends_and_leaves_no_directory() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, timeout=20, check=True)
    assert done.stderr == ""
    assert not Path(done.stdout.strip()).exists()


def test_a_directory_is_removed_where_no_thread_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    removed = tmp_path / "removed"
    removed.mkdir()
    removed.joinpath("file").touch()
    remove_tree(str(removed))
    assert not removed.exists()
