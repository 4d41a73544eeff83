"""Tests of temporary directories and their removal."""

from __future__ import annotations

from pathlib import Path

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
