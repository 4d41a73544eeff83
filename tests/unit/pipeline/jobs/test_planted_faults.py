"""The checks of `test_faults.py` are proved by bugs that are planted here: each is found."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs import commits as commits_module
from pykbroker.pipeline.jobs.commits import STAGING, ArchiveCommit, ArchiveCommits
from pykbroker.pipeline.storage import LocalStorage
from tests.unit.pipeline.jobs import lake
from tests.unit.pipeline.jobs.faulty_storage import STEPS_MAX, Disk, Fault, FaultyStorage
from tests.unit.pipeline.jobs.lake import archive, faulty_runs, require_part, require_whole


@pytest.fixture(autouse=True)
def in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    lake.in_small(monkeypatch)


def staging_outside(patch: pytest.MonkeyPatch) -> None:
    """Delete what lies beside the archive, as a staging directory there would be deleted."""
    close = ArchiveCommits.close

    def closed(self: ArchiveCommits) -> None:
        close(self)
        self._archive.sibling(".staging").delete()

    patch.setattr(ArchiveCommits, "close", closed)


def every_leftover(patch: pytest.MonkeyPatch) -> None:
    """Delete everything in the staging directory."""
    patch.setattr(commits_module, "RUN", re.compile(".*"))


def absent_is_moved(patch: pytest.MonkeyPatch) -> None:
    """Take a file that is not staged any more for one that was moved."""
    move = ArchiveCommits._move

    def moved(self: ArchiveCommits, batch: int, staged: str, target: str) -> None:
        if self._archive.exists(staged):
            move(self, batch, staged, target)

    patch.setattr(ArchiveCommits, "_move", moved)


def files_before_commit(patch: pytest.MonkeyPatch) -> None:
    """Move the files of a batch before its commit is written."""
    commit = ArchiveCommits.commit

    def committed(self: ArchiveCommits, found: ArchiveCommit) -> None:
        for staged, target in found.moves().items():
            self._archive.take(self._archive, staged, target)
        commit(self, found)

    patch.setattr(ArchiveCommits, "commit", committed)
    patch.setattr(ArchiveCommits, "_require_commits", lambda _: None)


def lost_commits(patch: pytest.MonkeyPatch) -> None:
    """Write a batch again whose commit is gone, and not its files."""
    patch.setattr(ArchiveCommits, "_require_commits", lambda _: None)


def deleted_before_exchange(patch: pytest.MonkeyPatch) -> None:
    """Exchange a directory in two steps."""
    exchange = LocalStorage.exchange

    def exchanged(self: LocalStorage, name: str, other: Any, other_name: str) -> None:
        self.delete(name)
        Path(self.directory, name).mkdir()
        exchange(self, name, other, other_name)

    patch.setattr(LocalStorage, "exchange", exchanged)


@pytest.mark.parametrize(
    ("bug", "lost", "fault"),
    [
        (staging_outside, "", "crash after"),
        (every_leftover, "", "crash after"),
        (absent_is_moved, STAGING, "crash after"),
        (files_before_commit, "", "crash after"),
        (lost_commits, "_pykbroker/commits", "crash after"),
        (deleted_before_exchange, "", "crash within"),
    ],
)
def test_a_planted_bug_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: Any, lost: str, fault: Fault
) -> None:
    monkeypatch.setattr(FaultyStorage, "disk", Disk())
    bug(monkeypatch)
    assert is_found(tmp_path, lost, fault)


def is_found(place: Path, lost: str, fault: Fault) -> bool:
    """Whether after a fault at some step records or files of others are gone or double, and no error says so."""

    def run(directory: Path, step: int) -> bool:
        for each in (f"{directory}.staging/notes", f"{directory}/{STAGING}/notes"):
            Path(each).parent.mkdir(parents=True, exist_ok=True)
            Path(each).touch()
        is_over = not FaultyStorage.disk.run(partial(archive, directory, FaultyStorage), step, fault)
        if lost:
            shutil.rmtree(directory / lost, ignore_errors=True)
        return not is_over

    for directory in faulty_runs(run, place, STEPS_MAX):
        try:
            require_part(directory)
            archive(directory)
            require_whole(directory)
            assert Path(f"{directory}.staging/notes").exists()
            assert lost or (directory / STAGING / "notes").exists()
        except PipelineError:
            pass
        except AssertionError:
            return True
    return False
