"""Faults of the storage at each step of the replacement of a state, in both ways, and bugs that are planted there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs import state_directory, state_renames
from pykbroker.pipeline.jobs.state_directory import StateSwap
from pykbroker.pipeline.jobs.state_owner import STAGING_SUFFIX, StateOwner
from pykbroker.pipeline.jobs.state_renames import StateRenames
from pykbroker.pipeline.storage import LocalStorage
from tests.unit.pipeline.jobs.faulty_storage import FAULTS, STEPS_MAX, Disk, Fault, FaultyStorage, RenamingStorage
from tests.unit.pipeline.jobs.lake import faulty_runs, write_state

OWNER = StateOwner("compact", "/lake", "parquet", [])
OLD, NEW = {"part-a.parquet": b"1", "part-b.parquet": b"2"}, {"part-c.parquet": b"3"}
FOREIGN = (".staging/notes.txt", ".staging/state/x", ".staging/old-12345678/x", f"{STAGING_SUFFIX}.old/x")
"""The files of others, by their paths behind that of the state."""
KINDS = [FaultyStorage, RenamingStorage]
"""A storage whose states are exchanged, and one whose states are renamed."""
Kind = type[FaultyStorage]


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = Disk()
    monkeypatch.setattr(FaultyStorage, "disk", found)
    monkeypatch.setattr("os.fsync", lambda _: None)
    return found


def replace(directory: Path, content: dict[str, bytes], kind: Kind) -> None:
    """Replace the state, as a job does. A process that ends loses its lock."""
    target = kind(directory)
    replacement: Any = StateRenames if kind is RenamingStorage else StateSwap
    swap = replacement(target, target.sibling(STAGING_SUFFIX))
    try:
        swap.open(OWNER)
        write_state(Path(swap.new_directory), content)
        swap.publish(OWNER)
        swap.close()
    except PipelineError:
        swap.close()
        raise
    finally:
        if getattr(swap, "_lock", None) is not None:
            os.close(swap._lock)


def read(directory: Path) -> dict[str, bytes]:
    """Return what a reader of the bare directory sees."""
    return {path.name: path.read_bytes() for path in directory.glob("*.parquet")}


def begin(directory: Path, kind: Kind, before: dict[str, bytes] = OLD) -> None:
    """Write the old state, if there is one, and the files of others."""
    if before:
        replace(directory, before, kind)
    for each in FOREIGN:
        LocalStorage(directory.parent).write(f"{directory.name}{each}", each.encode())


def require_foreign(directory: Path) -> None:
    assert [each for each in FOREIGN if Path(f"{directory}{each}").read_text() != each] == []


def require_any(directory: Path, kind: Kind, before: dict[str, bytes] = OLD) -> None:
    """Require that a reader sees the old state or the new one, or none between two renames."""
    assert read(directory) in (before, NEW, *([{}] if kind is RenamingStorage else []))


def require_new(directory: Path, kind: Kind) -> None:
    assert read(directory) == NEW
    assert kind is RenamingStorage or not Path(f"{directory}{STAGING_SUFFIX}").exists()
    assert sorted(each.name for each in directory.iterdir()) == ["_pykbroker", "part-c.parquet"]
    require_foreign(directory)


def faulty(directory: Path, step: int, kind: Kind, fault: Fault, before: dict[str, bytes] = OLD) -> bool:
    begin(directory, kind, before)
    return FaultyStorage.disk.run(partial(replace, directory, NEW, kind), step, fault)


def require_replaced(directory: Path, kind: Kind, before: dict[str, bytes] = OLD) -> None:
    """Require that after a fault a reader sees a whole state, and after a second run the new one."""
    require_any(directory, kind, before)
    replace(directory, NEW, kind)
    require_new(directory, kind)


@pytest.mark.parametrize(("fault", "before"), [*((each, OLD) for each in FAULTS), ("crash within", {})])
@pytest.mark.parametrize("kind", KINDS)
def test_after_a_fault_at_any_step_a_reader_sees_a_whole_state(
    tmp_path: Path, kind: Kind, fault: Fault, before: dict[str, bytes]
) -> None:
    directories = list(faulty_runs(partial(faulty, kind=kind, fault=fault, before=before), tmp_path, STEPS_MAX))
    assert len(directories) > 7
    for directory in directories:
        require_replaced(directory, kind, before)
    assert read(directories[-1]) == NEW


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_runs_at_a_time_one_replaces_the_state(tmp_path: Path, disk: Disk, kind: Kind) -> None:
    def other(directory: Path) -> None:
        try:
            replace(directory, NEW, kind)
        except PipelineError:
            pass

    def run(directory: Path, step: int) -> bool:
        begin(directory, kind)
        return disk.run_beside(partial(replace, directory, NEW, kind), step, partial(other, directory))

    for directory in faulty_runs(run, tmp_path, STEPS_MAX):
        require_replaced(directory, kind)


@pytest.mark.parametrize("lost", ["", "/_pykbroker", STAGING_SUFFIX])
@pytest.mark.parametrize("kind", KINDS)
def test_over_a_lost_directory_a_run_has_the_new_state_or_says_why_not(tmp_path: Path, kind: Kind, lost: str) -> None:
    def run(directory: Path, step: int) -> bool:
        has_fault = faulty(directory, step, kind, "crash after")
        shutil.rmtree(f"{directory}{lost}", ignore_errors=True)
        return has_fault

    for directory in faulty_runs(run, tmp_path, STEPS_MAX):
        try:
            replace(directory, NEW, kind)
        except PipelineError as error:
            assert lost == "/_pykbroker"
            assert f"{directory} has files that are no state" in str(error)
            require_any(directory, kind)
        else:
            require_new(directory, kind)


def exchange_ignored(patch: pytest.MonkeyPatch) -> None:
    """Take a state for replaced that the file system has not exchanged."""
    patch.setattr(StateSwap, "_exchange", lambda _: None)
    patch.setattr(state_directory, "require_in_place", lambda *_: None)


def deleted_before_exchange(patch: pytest.MonkeyPatch) -> None:
    """Delete the old state, and then rename the new one to its place."""

    def exchange(self: StateSwap) -> None:
        self._target.delete()
        self._target.take(self._staging, state_directory.NEW, "")

    patch.setattr(StateSwap, "_exchange", exchange)


def every_old_directory(patch: pytest.MonkeyPatch) -> None:
    """Delete any directory beside the state whose name is that of an old one."""

    def complete(self: StateRenames, staging: Any) -> None:
        for name in staging.names():
            if state_renames.RENAMED_AWAY.fullmatch(name):
                staging.delete(name)

    patch.setattr(StateRenames, "_complete", complete)


@pytest.mark.parametrize(
    ("kind", "bug"),
    [
        (FaultyStorage, exchange_ignored),
        (FaultyStorage, deleted_before_exchange),
        (RenamingStorage, every_old_directory),
    ],
)
def test_a_planted_bug_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, bug: Callable[[pytest.MonkeyPatch], None]
) -> None:
    with monkeypatch.context() as patch:
        bug(patch)
        assert is_found(tmp_path, kind)


def is_found(place: Path, kind: Kind) -> bool:
    """Whether after a fault at some step a state or files of others are gone, and no error says so."""
    for directory in faulty_runs(partial(faulty, kind=kind, fault="crash after"), place, STEPS_MAX):
        try:
            require_replaced(directory, kind)
        except (AssertionError, FileNotFoundError):
            return True
    return False
