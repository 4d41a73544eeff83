"""Commits that are lost, exchanged or not the job's own: a missing batch is named, and foreign files change nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.jobs.archived import claims_of
from pykbroker.pipeline.jobs.archived_files import ArchivedFile, FileChange, OffsetRange
from pykbroker.pipeline.jobs.commits import COMMITS, PENDING, SUMMARY, ArchiveCommit, ArchiveCommits, ranges_of
from pykbroker.pipeline.jobs.file_lists import CHANGES
from pykbroker.pipeline.storage import LocalStorage

BATCHES = 5
DAY = "topic=orders/date=2026-11-24"


@pytest.fixture(autouse=True)
def without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


def path_of(batch: int) -> str:
    return f"{DAY}/batch-{batch}-u.parquet"


def filled(directory: Path, folded: int) -> ArchiveCommits:
    """Write an archive of BATCHES batches, of which the first ones are folded."""
    archive = LocalStorage(directory)
    commits = ArchiveCommits(archive)
    commits.open("run", is_new=True)
    for batch in range(BATCHES):
        staged = f"{commits.staging}/batch-{batch}-1"
        archive.write(f"{staged}/{DAY}/part-u.parquet", b"x")
        files = {path_of(batch): ArchivedFile(1, [OffsetRange(0, batch, batch, 1, 5)])}
        commits.commit(ArchiveCommit(batch, {}, ranges_of(files), {"orders": {"0": batch + 1}}, [], staged, files))
        if batch + 1 == folded:
            commits.fold(0)
    commits.close()
    return commits


def commit_file(directory: Path, batch: int) -> Path:
    return directory / COMMITS / f"{batch:010d}.json"


@pytest.mark.parametrize(("folded", "lost"), [(0, 0), (0, 2), (0, 3), (2, 2), (2, 3), (4, None)])
@pytest.mark.parametrize("has_file", [True, False])
def test_a_missing_batch_before_the_last_one_is_named(
    tmp_path: Path, folded: int, lost: int | None, has_file: bool
) -> None:
    """The files of the batch may be gone, too. Without the summary, the first batch is missing."""
    commits = filled(tmp_path, folded)
    assert claims_of(LocalStorage(tmp_path)).ends == {("orders", 0): BATCHES}
    (tmp_path / SUMMARY if lost is None else commit_file(tmp_path, lost)).unlink()
    if not has_file:
        (tmp_path / path_of(lost or 0)).unlink()
    before = LocalStorage(tmp_path).files()
    match = rf"no commit of batch {lost or 0}, but later ones: restore 000000000{lost or 0}\.json and the files of"
    for read in (lambda: claims_of(LocalStorage(tmp_path)), commits.all, lambda: commits.open("run", is_new=False)):
        with pytest.raises(StateConflict, match=match):
            read()
    assert LocalStorage(tmp_path).files() == before


@pytest.mark.parametrize("batch", [0, 2, BATCHES - 1])
def test_a_commit_under_the_name_of_another_batch_is_named(tmp_path: Path, batch: int) -> None:
    commits = filled(tmp_path, 0)
    other = (batch + 1) % BATCHES
    shutil.copy(commit_file(tmp_path, other), commit_file(tmp_path, batch))
    match = rf"000000000{batch}\.json is the commit of batch {other}: restore that of batch {batch}"
    with pytest.raises(StateConflict, match=match):
        claims_of(LocalStorage(tmp_path))
    with pytest.raises(StateConflict, match=match):
        commits.committed(batch)


def test_files_of_others_beside_the_commits_are_left_alone(tmp_path: Path) -> None:
    names = ["notes.json", "0000000001.json.bak", "0000000001 (copy).json", "old/0000000001.json", f"new{PENDING}"]
    foreign = [f"{directory}/{name}" for directory in (COMMITS, CHANGES) for name in names]
    archive, commits = LocalStorage(tmp_path), filled(tmp_path, 2)
    for name in foreign:
        archive.write(name, b'{"a":1}')
    assert claims_of(archive).ends == {("orders", 0): BATCHES}
    commits.open("run", is_new=False)
    commits.fold(0)
    assert not commits.is_pending()
    assert {each.path for each in (*archive.files(COMMITS), *archive.files(CHANGES))} == set(foreign)


def test_a_merge_without_any_commit_is_refused(tmp_path: Path) -> None:
    archive = LocalStorage(tmp_path)
    ArchiveCommits(archive).open("run", is_new=True)
    merged = f"{DAY}/part-0.parquet"
    archive.write(merged, b"x")
    change = FileChange([], {merged: ArchivedFile(1, [OffsetRange(0, 0, 9, 10, 5)])})
    archive.write(f"{CHANGES}/0123abcd.json", msgspec.json.encode(change))
    with pytest.raises(StateConflict, match=rf"{CHANGES} has a merge of files, but there is no commit: restore "):
        ArchiveCommits(archive).open("run", is_new=False)
    assert not archive.exists(SUMMARY)


class Lonely(LocalStorage):
    """The storage of a directory beside which there is nothing, as of the root of a bucket."""

    def sibling(self, suffix: str) -> LocalStorage:
        raise ValueError(suffix)


def test_nothing_beside_the_archive_is_looked_at_without_a_commit_of_before(tmp_path: Path) -> None:
    commits = ArchiveCommits(Lonely(tmp_path))
    commits.open("run", is_new=True)
    files = {path_of(0): ArchivedFile(1, [OffsetRange(0, 0, 0, 1, 5)])}
    LocalStorage(tmp_path).write(f"{commits.staging}/a/{DAY}/part-u.parquet", b"x")
    commits.commit(ArchiveCommit(0, {}, ranges_of(files), {}, [], f"{commits.staging}/a", files))
    assert commits.committed(0) is not None
