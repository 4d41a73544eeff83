"""Faults of the storage at each step of each job: afterwards a second run has each record once, or says why not."""

from __future__ import annotations

import errno
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.jobs.archived import claims_of, look_up
from pykbroker.pipeline.jobs.commits import COMMITS, STAGING
from pykbroker.pipeline.storage import LocalStorage, no_exchange
from tests.unit.pipeline.jobs import lake
from tests.unit.pipeline.jobs.crashes import CRASHES, OPERATIONS_MAX
from tests.unit.pipeline.jobs.faulty_storage import FAULTS, STEPS_MAX, Disk, Fault, FaultyStorage, RenamingStorage
from tests.unit.pipeline.jobs.lake import DAYS, EVERYTHING, archive, faulty_runs, require_part, require_whole, seen

FOREIGN = (
    *("notes.txt", ".staging/notes.txt", "/_pykbroker/notes.txt", f"/{STAGING}/notes.txt", "/_notes/x.parquet"),
    *(f"/{STAGING}/run-of-mine/x.parquet", f"/{STAGING}/run-0123abcd.old/x", f"/{COMMITS}/notes.txt"),
    *(f"/{DAYS[0]}/notes.txt", f"/{DAYS[0]}/more/notes.txt", ".staging/batch-0-0123abcd/x", ".staging/state/x"),
)
"""The files of others, by their paths behind that of the archive."""


@pytest.fixture(autouse=True)
def in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    lake.in_small(monkeypatch)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = Disk()
    monkeypatch.setattr(FaultyStorage, "disk", found)
    return found


def put_foreign(directory: Path) -> None:
    for each in FOREIGN:
        path = Path(f"{directory}{each}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(each)


def require_foreign(directory: Path) -> None:
    assert [each for each in FOREIGN if Path(f"{directory}{each}").read_text() != each] == []


@pytest.mark.parametrize(
    ("storage", "fault"),
    [
        *((FaultyStorage, each) for each in FAULTS),
        *((RenamingStorage, each) for each in ("crash before", "crash after", "error after")),
    ],
)
def test_after_a_fault_at_any_step_a_second_run_has_each_record_once(
    tmp_path: Path, disk: Disk, fault: Fault, storage: type[FaultyStorage]
) -> None:
    def run(directory: Path, step: int) -> bool:
        return disk.run(partial(archive, directory, storage), step, fault)

    directories = list(faulty_runs(run, tmp_path, STEPS_MAX))
    assert len(directories) > 30
    for directory in directories:
        require_part(directory)
        archive(directory, storage)
        require_whole(directory)
        if storage is FaultyStorage:
            assert not (directory / STAGING).exists()
            assert [len(list((directory / day).iterdir())) for day in DAYS] == [1, 1]
        archive(directory, storage)
        require_whole(directory)


def test_no_fault_touches_the_files_of_others(tmp_path: Path, disk: Disk) -> None:
    def run(directory: Path, step: int) -> bool:
        disk.run(partial(archive, directory, FaultyStorage), BEGUN, "crash before")
        put_foreign(directory)
        return disk.run(partial(archive, directory, FaultyStorage), step, "crash within")

    for directory in faulty_runs(run, tmp_path, STEPS_MAX):
        require_foreign(directory)
        archive(directory)
        require_whole(directory)
        require_foreign(directory)
        assert sorted(each.name for each in directory.parent.iterdir()) == ["lake", "lake.staging", "lakenotes.txt"]


BEGUN = 6
"""A step at which the archive and its checkpoint have begun, and no batch is written."""


@pytest.mark.parametrize("storage", [FaultyStorage, RenamingStorage])
def test_of_two_runs_at_a_time_one_writes_each_record(tmp_path: Path, disk: Disk, storage: type[FaultyStorage]) -> None:
    def other(directory: Path) -> None:
        try:
            archive(directory, storage)
        except StateConflict:
            pass

    def run(directory: Path, step: int) -> bool:
        return disk.run_beside(partial(archive, directory, storage), step, partial(other, directory))

    for directory in faulty_runs(run, tmp_path, STEPS_MAX):
        require_part(directory)
        archive(directory, storage)
        require_whole(directory)


LOST = ("_pykbroker/staging", "_pykbroker/commits", "_pykbroker/checkpoint", "_pykbroker", DAYS[0], "")


@pytest.mark.parametrize("lost", LOST)
def test_a_run_over_a_lost_directory_has_each_record_once_or_says_why_not(
    tmp_path: Path, disk: Disk, lost: str
) -> None:
    def run(directory: Path, step: int) -> bool:
        has_ended = not disk.run(partial(archive, directory, FaultyStorage), 2 * step, "crash after")
        shutil.rmtree(directory / lost, ignore_errors=True)
        return not has_ended

    refused = 0
    for directory in faulty_runs(run, tmp_path, STEPS_MAX):
        for _ in range(2):
            said: list[str] = []
            try:
                archive(directory, say=said.append)
            except PipelineError as error:
                assert str(directory) in str(error)
                refused += 1
            else:
                if said:
                    [line] = said
                    assert f"the archive {directory} is damaged: {lost}/" in line
                    assert look_up(LocalStorage(directory), claims_of(LocalStorage(directory))).damages
                    refused += 1
                else:
                    require_whole(directory)
    assert bool(refused) is bool(lost)


@pytest.mark.parametrize("mount", ["", "_pykbroker", STAGING, COMMITS, "topic=orders", DAYS[0]])
def test_an_archive_over_two_file_systems_has_each_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mount: str
) -> None:
    mounted(monkeypatch, mount)
    stride = 7 if mount == "topic=orders" else 100
    directories = faulty_runs(
        lambda at, step: CRASHES.run(partial(archive, at), step * stride), tmp_path, OPERATIONS_MAX
    )
    for directory in directories:
        require_part(directory)
        archive(directory)
        require_whole(directory)
        assert list((directory / "topic=orders").rglob("*.tmp")) == []


def mounted(monkeypatch: pytest.MonkeyPatch, mount: str) -> None:
    """Mount a directory of the archive: renames, links and exchanges across its border fail."""

    def is_inside(path: Any) -> bool:
        relative = str(path).partition("/lake")[2].removeprefix("/")
        return f"{relative}/".startswith(f"{mount}/") if mount else "/lake/" in str(path)

    rename, link, exchange = Path.rename, os.link, LocalStorage.exchange

    def refuse(one: Any, two: Any) -> None:
        if is_inside(one) != is_inside(two):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(one))

    def renamed(path: Path, target: Path) -> Path:
        refuse(path, target)
        return rename(path, target)

    def linked(source: Any, target: Any) -> None:
        refuse(source, target)
        link(source, target)

    def exchanged(self: LocalStorage, name: str, other: Any, other_name: str) -> None:
        if is_inside(f"{self.directory}/{name}/x") != is_inside(f"{other.directory}/{other_name}/x"):
            raise no_exchange(name)
        exchange(self, name, other, other_name)

    monkeypatch.setattr(Path, "rename", renamed)
    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(LocalStorage, "exchange", exchanged)


def test_an_archive_may_be_a_link_to_another_disk(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "disk")
    archive(tmp_path / "lake")
    assert (tmp_path / "lake").is_symlink()
    assert seen(tmp_path / "disk") == EVERYTHING
    assert sorted(each.name for each in tmp_path.iterdir()) == ["disk", "lake"]
