"""The replacement of a state: only a state is replaced, what is in its way is named, and the new one is there."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.jobs.compact import closed_after
from pykbroker.pipeline.jobs.state_directory import StateSwap, replacement
from pykbroker.pipeline.jobs.state_owner import StateOwner
from pykbroker.pipeline.storage import LocalStorage, Storage, no_exchange
from tests.unit.pipeline.jobs.lake import write_state

OWNER = StateOwner("compact", "/lake", "parquet", [])
OLD, NEW = {"part-a.parquet": b"1", "part-b.parquet": b"2"}, {"part-c.parquet": b"3"}


def read(directory: Path) -> dict[str, bytes]:
    """Return what a reader of the bare directory sees."""
    return {path.name: path.read_bytes() for path in directory.glob("*.parquet")}


def run(
    directory: Path,
    content: dict[str, bytes],
    storage: type[LocalStorage] = LocalStorage,
    before_publish: Callable[[], None] = lambda: None,
) -> None:
    """Replace the state, as a job does. A process that ends loses its lock."""
    swap = StateSwap(storage(directory), storage(f"{directory}.staging"))
    try:
        swap.open(OWNER)
        write_state(Path(swap.new_directory), content)
        before_publish()
        swap.publish(OWNER)
        swap.close()
    except PipelineError:
        swap.close()
        raise
    finally:
        if swap._lock is not None:
            os.close(swap._lock)


def test_a_second_run_waits_for_no_first_one(tmp_path: Path) -> None:
    one, two = (StateSwap(LocalStorage(tmp_path / "s"), LocalStorage(tmp_path / "s.staging")) for _ in range(2))
    one.open(OWNER)
    with pytest.raises(StateConflict, match="another run is writing"):
        two.open(OWNER)
    one.close()
    two.open(OWNER)
    two.close()


def test_a_file_system_without_locks_is_named_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS locks no directory: nobody else is at work there."""

    def flock(*_: object) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(PipelineError, match=r"state\.staging cannot be locked: Bad file descriptor.*choose a local"):
        run(tmp_path / "new/state", NEW)
    assert not any(tmp_path.iterdir())


def test_a_run_that_cannot_open_its_directory_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def failing(path: Path, *rest: int) -> int:
        if path.name == "state.staging":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return opened(path, *rest)

    monkeypatch.setattr(os, "open", failing)
    swap = StateSwap(LocalStorage(tmp_path / "new/state"), LocalStorage(tmp_path / "new/state.staging"))
    with pytest.raises(PipelineError, match=r"state\.staging: Too many open files"):
        swap.open(OWNER)
    assert not any(tmp_path.iterdir())


def test_a_run_that_writes_nothing_leaves_no_directory(tmp_path: Path) -> None:
    swap = StateSwap(LocalStorage(tmp_path / "a/b/state"), LocalStorage(tmp_path / "a/b/state.staging"))
    swap.open(OWNER)
    swap.close()
    assert not any(tmp_path.iterdir())


def test_a_directory_of_something_else_is_never_replaced(tmp_path: Path) -> None:
    target = tmp_path / "photos"
    target.mkdir()
    (target / "cat.jpg").write_bytes(b"cat")
    with pytest.raises(StateConflict, match="files that are no state"):
        run(target, NEW)
    assert (target / "cat.jpg").read_bytes() == b"cat"


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        (StateOwner("compact", "/other", "parquet", ["a", "b"]), "has the state of a, b of the archive /other"),
        (None, "cannot be read"),
    ],
)
def test_the_state_of_another_archive_is_never_replaced(tmp_path: Path, owner: StateOwner | None, message: str) -> None:
    run(tmp_path / "state", OLD)
    content = b"{" if owner is None else msgspec.json.encode(owner)
    (tmp_path / "state" / "_pykbroker" / "state.json").write_bytes(content)
    with pytest.raises(StateConflict, match=message):
        run(tmp_path / "state", NEW)
    assert read(tmp_path / "state") == OLD


def test_a_file_system_without_an_exchange_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "get_errno", lambda: errno.EINVAL)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(renameat2=lambda *_: -1))
    swap = StateSwap(LocalStorage(tmp_path / "s"), LocalStorage(tmp_path / "s.staging"))
    with pytest.raises(PipelineError, match="cannot exchange two directories in one step: choose a local directory"):
        swap.open(OWNER)
    swap.close()
    assert list(tmp_path.iterdir()) == []


class Overlay(LocalStorage):
    """A storage on overlayfs, whose directories of a lower layer cannot be exchanged."""

    lower = "prod"

    def exchange(self, name: str, other: Storage, other_name: str) -> None:
        if Path(self.directory, name).name == self.lower:
            raise no_exchange(self.directory, "Invalid cross-device link")
        super().exchange(name, other, other_name)


class Forgetful(LocalStorage):
    """A storage that says that it has exchanged directories, and has not."""

    def exchange(self, name: str, other: Storage, other_name: str) -> None:
        pass


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        (Overlay, "prod cannot be exchanged .* the old state is unchanged, and the new one is in .*/state until"),
        (Forgetful, "prod has another state than the one that was moved there: look for the new one in .*/state$"),
    ],
)
def test_a_new_state_that_is_not_in_place_is_an_error_and_is_kept(
    tmp_path: Path, storage: type[LocalStorage], message: str
) -> None:
    target = tmp_path / "prod"
    run(target, OLD)
    with pytest.raises(PipelineError, match=message):
        run(target, NEW, storage)
    assert (read(target), read(tmp_path / "prod.staging" / "state")) == (OLD, NEW)
    run(target, NEW)
    assert read(target) == NEW
    assert [each.name for each in tmp_path.iterdir()] == ["prod"]


def every_file(directory: Path) -> dict[str, bytes]:
    return {str(each.relative_to(directory)): each.read_bytes() for each in directory.rglob("*") if each.is_file()}


@pytest.mark.parametrize("foreign", ["state/cat.jpg", "probe/cat.jpg", "topic=a/part-0.parquet"])
def test_a_staging_directory_of_something_else_is_refused_and_kept(tmp_path: Path, foreign: str) -> None:
    LocalStorage(tmp_path / "s.staging").write(foreign, b"cat")
    with pytest.raises(StateConflict, match=r"s\.staging has files of something else.* move them away, or choose"):
        run(tmp_path / "s", NEW)
    assert every_file(tmp_path) == {f"s.staging/{foreign}": b"cat"}


def test_a_foreign_file_beside_a_new_state_is_kept(tmp_path: Path) -> None:
    """The mark stays with a file that came during a run, so that the next run is not refused."""
    staging = LocalStorage(tmp_path / "s.staging")
    for content in (OLD, NEW):
        swap = StateSwap(LocalStorage(tmp_path / "s"), staging)
        swap.open(OWNER)
        write_state(Path(swap.new_directory), content)
        staging.write("cat.jpg", b"cat")
        swap.publish(OWNER)
        swap.close()
    assert [each.path for each in staging.files()] == ["cat.jpg", "run.json"]
    assert read(tmp_path / "s") == NEW


def test_no_name_of_a_staging_directory_is_that_of_another_target(tmp_path: Path) -> None:
    swap = replacement(LocalStorage(tmp_path / "prod"))
    assert isinstance(swap, StateSwap)
    LocalStorage(tmp_path / "prod.staging").write("part-0.parquet", b"an archive")
    assert Path(swap.new_directory).parent == tmp_path / "prod.pykbroker-staging"
    swap.open(OWNER)
    write_state(Path(swap.new_directory), NEW)
    swap.publish(OWNER)
    swap.close()
    assert {path.name for path in tmp_path.iterdir()} == {"prod", "prod.staging"}
    assert read(tmp_path / "prod.staging") == {"part-0.parquet": b"an archive"}


@pytest.mark.parametrize("foreign", ["notes.txt", "other.parquet", "_pykbroker/mine", "days/part-a.parquet"])
@pytest.mark.parametrize("late", [False, True])
def test_a_foreign_file_in_a_state_is_never_deleted(tmp_path: Path, foreign: str, late: bool) -> None:
    target = LocalStorage(tmp_path / "s")
    run(tmp_path / "s", OLD)
    if not late:
        target.write(foreign, b"mine")
    with pytest.raises(StateConflict, match=f"s/{foreign} is no file of the state.* move it away"):
        run(tmp_path / "s", NEW, before_publish=lambda: target.write(foreign, b"mine"))
    assert every_file(tmp_path / "s").items() >= {**OLD, foreign: b"mine"}.items()
    assert not (tmp_path / "s.staging").exists()


def link_to_a_directory(path: Path) -> None:
    path.with_name("away").mkdir()
    (path / "more").symlink_to(path.with_name("away"))


def broken_link(path: Path) -> None:
    (path / "more").symlink_to(path.with_name("nowhere"))


def empty_directory(path: Path) -> None:
    (path / "more").mkdir()


@pytest.mark.parametrize("put", [link_to_a_directory, broken_link, empty_directory])
@pytest.mark.parametrize("has_state", [False, True])
def test_a_directory_or_a_link_in_a_target_is_never_deleted(
    tmp_path: Path, put: Callable[[Path], None], has_state: bool
) -> None:
    target = tmp_path / "s"
    if has_state:
        run(target, OLD)
    target.mkdir(exist_ok=True)
    put(target)
    message = "s/more is no file of the state.* move it away" if has_state else "files that are no state"
    with pytest.raises(StateConflict, match=message):
        run(target, NEW)
    assert os.path.lexists(target / "more")
    assert read(target) == (OLD if has_state else {})


def test_a_new_state_has_the_mode_of_the_old_one(tmp_path: Path) -> None:
    run(tmp_path / "s", OLD)
    (tmp_path / "s").chmod(0o2750)
    run(tmp_path / "s", NEW)
    assert (read(tmp_path / "s"), (tmp_path / "s").stat().st_mode & 0o7777) == (NEW, 0o2750)


@pytest.mark.parametrize("content", [b"hello", b"", b"{}", b'{"run":"x","files":["precious"]}'])
def test_a_mark_is_known_by_its_content(tmp_path: Path, content: bytes) -> None:
    staging = LocalStorage(tmp_path / "s.staging")
    staging.write("run.json", content)
    staging.write("state/precious", b"cat")
    with pytest.raises(StateConflict, match="has files of something else"):
        run(tmp_path / "s", NEW)
    assert every_file(tmp_path / "s.staging") == {"run.json": content, "state/precious": b"cat"}


def test_an_empty_directory_beside_a_new_state_is_no_staging_directory(tmp_path: Path) -> None:
    (tmp_path / "s.staging" / "mine").mkdir(parents=True)
    with pytest.raises(StateConflict, match="has files of something else"):
        run(tmp_path / "s", NEW)
    assert (tmp_path / "s.staging" / "mine").exists()


def test_a_state_of_an_earlier_version_is_replaced(tmp_path: Path) -> None:
    run(tmp_path / "s", OLD)
    LocalStorage(tmp_path / "s").delete("_pykbroker/run.json")
    run(tmp_path / "s", NEW)
    assert read(tmp_path / "s") == NEW


class Busy(LocalStorage):
    """A storage to which tasks still write while it deletes a new state."""

    def delete(self, name: str = "") -> None:
        if name == "state" and self.exists(name):
            raise PipelineError(f"{self.directory}/{name}: Directory not empty")
        super().delete(name)


def staged(place: Path, error: type[BaseException] | None) -> None:
    """Stage a state in a storage that cannot delete it, until an error."""
    swap = StateSwap(Busy(place), Busy(f"{place}.staging"))
    with closed_after(swap.close):
        swap.open(OWNER)
        write_state(Path(swap.new_directory), {"a.parquet": b"1"})
        if error is not None:
            raise error


def test_an_interruption_is_raised_also_if_the_state_cannot_be_closed(tmp_path: Path) -> None:
    place = tmp_path / "target"
    with pytest.raises(KeyboardInterrupt):
        staged(place, KeyboardInterrupt)
    run(place, {"b.parquet": b"2"})  # the lock is free
    assert read(place) == {"b.parquet": b"2"}
    with pytest.raises(PipelineError, match="not empty"):
        staged(place, None)


@pytest.mark.parametrize("what", ["a link to", "a mount point"])
def test_a_link_or_a_mount_point_is_refused_before_the_work(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "disk" / "s", OLD)
    target = tmp_path / "s"
    if what == "a link to":
        target.symlink_to(tmp_path / "disk" / "s")
    else:
        target.mkdir()
        monkeypatch.setattr(Path, "is_mount", lambda self: self == target)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StateConflict, match=f"s is {what}.*, which a new state cannot replace: give"):
        run(target, NEW)
    assert sorted(tmp_path.iterdir()) == before
    assert read(tmp_path / "disk" / "s") == OLD
