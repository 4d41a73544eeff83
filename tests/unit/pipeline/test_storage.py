"""The files of jobs in a local directory."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.pipeline import local_files
from pykbroker.pipeline import storage as storage_module
from pykbroker.pipeline.errors import NoExchange, PipelineError, StateConflict
from pykbroker.pipeline.storage import (
    LISTINGS_MAX,
    LOCK_ATTEMPTS,
    HadoopStorage,
    LocalStorage,
    StoredFile,
    literal,
    storage_of,
    write_file,
)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "lake")


def test_a_file_is_written_read_listed_and_deleted(storage: LocalStorage) -> None:
    assert (storage.exists(), storage.files()) == (False, [])
    storage.write("a/b", b"one")
    storage.write("a/b", b"three")
    storage.write("c", b"")
    assert storage.read("a/b") == b"three"
    assert storage.files() == [StoredFile("a/b", 5), StoredFile("c", 0)]
    assert storage.files("a") == [StoredFile("a/b", 5)]
    assert storage.size("a/b") == 5
    storage.rename("c", "d/e")
    assert (storage.exists("c"), storage.exists("d/e")) == (False, True)
    for name in ("a", "d/e", "missing"):
        storage.delete(name)
    assert storage.files() == []
    storage.delete()
    assert not storage.exists()


def test_a_listing_goes_on_while_files_vanish_and_where_a_link_leads_nowhere(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link has the size of its file, or its own without one. A file, a link and a directory vanish meanwhile."""
    for name in ("a/gone", "b/kept", "c/d/within"):
        storage.write(name, b"12345")
    root = Path(storage.directory)
    for name, target in (("link", "b/kept"), ("nowhere", "missing"), ("circle", "circle"), ("a/lost", "missing")):
        (root / name).symlink_to(target)
    walk = os.walk

    def walked(top: Path, **options: Any) -> Any:
        for directory, names, files in walk(top, **options):
            if Path(directory).name in ("a", "c"):
                shutil.rmtree(directory)
            yield directory, names, files

    monkeypatch.setattr(os, "walk", walked)
    assert storage.files() == [("b/kept", 5), ("circle", 6), ("link", 5), ("nowhere", 7)]


class Deleted(Exception):
    """An exception of Hadoop."""

    __module__ = "py4j.protocol"


@pytest.mark.parametrize(
    ("failures", "text"),
    [
        (LISTINGS_MAX - 1, "java.io.FileNotFoundException: x"),
        (LISTINGS_MAX, "java.io.FileNotFoundException: x"),
        (1, "java.io.IOException: x"),
    ],
)
def test_a_listing_of_hadoop_is_repeated_if_a_directory_vanishes(failures: int, text: str) -> None:
    calls = []

    def listed(*_: object) -> Any:
        calls.append(1)
        if len(calls) <= failures:
            raise Deleted(text)
        return SimpleNamespace(hasNext=lambda: False)

    system = SimpleNamespace(exists=lambda _: True, listFiles=listed, makeQualified=lambda path: path)
    path = SimpleNamespace(getFileSystem=lambda _: system, toString=lambda: "hdfs://h/lake")
    jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace())))
    jvm.org.apache.hadoop.fs = SimpleNamespace(Path=lambda *_: path)
    spark: Any = SimpleNamespace(_jvm=jvm, _jsc=SimpleNamespace(hadoopConfiguration=lambda: None))
    storage = HadoopStorage(spark, "hdfs://h/lake")
    if failures == LISTINGS_MAX - 1:
        assert storage.files() == []
    else:
        with pytest.raises(PipelineError, match=text):
            storage.files()
    assert len(calls) == min(failures + 1, LISTINGS_MAX) - ("IO" in text)


def test_files_move_between_siblings(storage: LocalStorage) -> None:
    staging = storage.sibling(".staging")
    assert staging.directory == f"{storage.directory}.staging"
    staging.write("x", b"1")
    storage.take(staging, "x", "topic=t/x")
    assert storage.files() == [StoredFile("topic=t/x", 1)]
    assert staging.files() == []


def test_directories_are_exchanged_in_one_step(storage: LocalStorage) -> None:
    staging = storage.sibling(".staging")
    storage.write("day/old", b"")
    staging.write("new/day/new", b"")
    storage.exchange("day", staging, "new/day")
    assert (storage.files("day"), staging.files()) == ([StoredFile("day/new", 0)], [StoredFile("new/day/old", 0)])
    with pytest.raises(PipelineError, match="missing: No such file or directory"):
        storage.exchange("missing", staging, "new/day")


def test_a_file_system_without_an_exchange_says_so(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "get_errno", lambda: errno.EINVAL)
    with pytest.raises(NoExchange, match="lake/missing cannot be exchanged with another .* in one step: Invalid arg"):
        storage.exchange("missing", storage, "other")
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())
    with pytest.raises(
        NoExchange, match="lake/missing cannot be exchanged with another directory in one step: Function"
    ):
        storage.exchange("missing", storage, "other")


def test_a_link_and_a_mount_point_cannot_be_renamed(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.write("a b/file", b"")
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    assert LocalStorage(tmp_path / "link").cannot_be_renamed() == f"a link to {tmp_path}/lake"
    assert LocalStorage("/proc").cannot_be_renamed() == "a mount point"
    within = LocalStorage(tmp_path / "lake" / "a b")
    assert (storage.cannot_be_renamed(), within.cannot_be_renamed()) == ("", "")
    place = os.path.realpath(within.directory).replace(" ", "\\040")
    (tmp_path / "mountinfo").write_text(f"36 35 98:0 /part {place} rw,noatime - ext3 /dev/root rw\n")
    monkeypatch.setattr(storage_module, "MOUNTS", tmp_path / "mountinfo")
    assert (storage.cannot_be_renamed(), within.cannot_be_renamed()) == ("", "a mount point")


def test_a_directory_gets_the_group_of_another_also_if_its_owner_cannot_be_set(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = []

    def chown(path: Path, owner: int, group: int) -> None:
        if owner != -1:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        groups.append((path, group))

    monkeypatch.setattr(os, "chown", chown)
    for name in ("old", "new"):
        storage.write(f"{name}/x", b"")
    storage.copy_mode("new", LocalStorage(f"{storage.directory}/old"))
    root = Path(storage.directory)
    assert groups == [(root / "new", (root / "old").stat().st_gid)]


def test_a_file_moves_to_another_file_system_as_a_whole(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.write("a/x", b"1")
    replace = Path.rename

    def across(path: Path, target: Path) -> Path:
        if path.parent != target.parent:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(path))
        return replace(path, target)

    monkeypatch.setattr(Path, "rename", across)
    storage.rename("a/x", "b/x")
    assert storage.files() == [StoredFile("b/x", 1)]
    with pytest.raises(PipelineError, match="Invalid cross-device link"):
        storage.rename("b", "c/b")

    def full(_: Path, target: Path) -> None:
        target.write_bytes(b"")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(PipelineError, match="No space left on device"):
        storage.rename("b/x", "a/x")
    assert storage.files() == [StoredFile("b/x", 1)]


def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)


def no_renames(monkeypatch: pytest.MonkeyPatch) -> None:
    no_links(monkeypatch)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())


@pytest.mark.parametrize("lacking", [lambda _: None, no_links, no_renames])
def test_a_file_is_created_once(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, lacking: Any) -> None:
    lacking(monkeypatch)
    storage.create("a/b", b"one")
    with pytest.raises(StateConflict, match="lake/a/b exists: another run is writing"):
        storage.create("a/b", b"two")
    assert (storage.read("a/b"), storage.files()) == (b"one", [StoredFile("a/b", 3)])


@pytest.mark.parametrize("lacking", [lambda _: None, no_links])
def test_of_two_that_create_a_file_at_a_time_one_does(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, lacking: Any
) -> None:
    """The other one comes when the first one has found that there is no such file."""
    lacking(monkeypatch)
    fsync = os.fsync

    def other(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        storage.create("a/b", b"two")
        fsync(descriptor)

    storage.write("a/c", b"")
    monkeypatch.setattr(os, "fsync", other)
    with pytest.raises(StateConflict, match="lake/a/b exists"):
        storage.create("a/b", b"one")
    assert (storage.read("a/b"), len(storage.files())) == (b"two", 2)


@pytest.mark.parametrize(("number", "is_tolerated"), [(errno.EXDEV, True), (errno.EPERM, True), (errno.EACCES, False)])
def test_a_file_system_without_links_says_so(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, number: int, is_tolerated: bool
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    storage.write("a/x", b"")
    monkeypatch.setattr(os, "link", refuse)
    if is_tolerated:
        assert not storage.mirror("a", "b", ())
    else:
        with pytest.raises(PipelineError, match="Permission denied"):
            storage.mirror("a", "b", ())


def test_a_directory_is_mirrored_with_links_empty_directories_and_modes(storage: LocalStorage, tmp_path: Path) -> None:
    root = Path(storage.directory)
    for name in ("day/small", "day/note", "day/more/x", "away/x"):
        storage.write(name, name.encode())
    (root / "day/empty").mkdir()
    (root / "day/directory").symlink_to(root / "away")
    (root / "day/file").symlink_to("note")
    (root / "day/nothing").symlink_to("nowhere")
    modes = {"": 0o2750, "more": 0o700, "empty": 0o1777}
    for name, mode in modes.items():
        (root / "day" / name).chmod(mode)
    (root / "new").mkdir()
    assert storage.mirror("day", "new", {"day/small"})
    assert [each.path.removeprefix("new/") for each in storage.files("new")] == [
        *("directory", "file", "more/x", "note", "nothing")
    ]
    assert {name: (root / "new" / name).stat().st_mode & 0o7777 for name in modes} == modes
    links = {name: os.readlink(root / "new" / name) for name in ("directory", "file", "nothing")}
    assert links == {"directory": str(root / "away"), "file": "note", "nothing": "nowhere"}
    assert (root / "new/note").samefile(root / "day/note")
    storage.sync("new")


def test_a_file_that_is_deleted_meanwhile_is_not_listed(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.write("a", b"1")
    walk = os.walk
    monkeypatch.setattr(os, "walk", lambda top: ((place, dirs, [*names, "gone"]) for place, dirs, names in walk(top)))
    assert storage.files() == [StoredFile("a", 1)]


def test_the_newest_name_comes_first(storage: LocalStorage) -> None:
    assert storage.names() == []
    for age, name in enumerate(("a/x", "b", "c/y")):
        storage.write(name, b"")
        os.utime(Path(storage.directory) / name.partition("/")[0], (1000 - age, 1000 - age))
    assert storage.names() == ["a", "b", "c"]


def test_only_names_of_the_pattern_are_left(storage: LocalStorage) -> None:
    for name in ("run-1/x", "run-2/x", "cat/x", "run-10"):
        storage.write(f"s/{name}", b"")
    (Path(storage.directory) / "s/run-3").symlink_to(Path(storage.directory) / "s/cat")
    storage.delete_leftovers("s", re.compile("run-[0-9]"))
    assert [each.path for each in storage.files()] == ["s/cat/x", "s/run-10"]
    for name in ("s/cat", "s/run-10"):
        storage.delete(name)
    storage.delete_leftovers("s", re.compile("run-[0-9]"))
    assert not storage.exists("s")


def test_names_of_new_directories_are_durable(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(local_files, "sync", synced.append)
    root = Path(storage.directory)
    storage.write("a/b/c", b"")
    assert {root.parent, root, root / "a", root / "a/b"} <= set(synced)
    synced.clear()
    storage.sync("a/b")
    assert set(synced) == {root, root / "a", root / "a/b", root / "a/b/c"}


def test_failures_name_file_and_reason(storage: LocalStorage) -> None:
    with pytest.raises(PipelineError, match=f"{storage.directory}/missing: No such file or directory"):
        storage.read("missing")
    with pytest.raises(PipelineError, match="No such file or directory"):
        storage.rename("missing", "x")
    storage.write("file", b"")
    with pytest.raises(PipelineError, match="Not a directory|File exists"):
        storage.write("file/below", b"")


def test_a_full_disk_leaves_the_old_content(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.write("run.json", b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PipelineError, match=r"lake/run\.json: No space left on device"):
        storage.write("run.json", b"new")
    assert [each.path for each in storage.files()] == ["run.json"]
    assert storage.read("run.json") == b"old"


def test_a_file_outside_of_a_storage_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    page, link = tmp_path / "site" / "page.html", tmp_path / "link"
    link.symlink_to(page)
    for content in (b"one", b"two"):
        write_file(link, content)
    page.chmod(0o600)

    def full(_: int) -> None:
        assert page.read_bytes() == b"two"
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "site" / ".page.html.tmp").write_bytes(b"mine")
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(PipelineError, match=r"site/page\.html: No space left on device"):
            write_file(link, b"three")
    assert page.read_bytes() == b"two"
    write_file(link, b"three")
    found = {each.name: each.read_bytes() for each in (tmp_path / "site").iterdir()}
    assert found == {"page.html": b"three", ".page.html.tmp": b"mine"}
    assert (link.is_symlink(), page.stat().st_mode & 0o777) == (True, 0o600)


def test_what_is_no_regular_file_is_written_as_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    descriptor = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_file(tmp_path / "pipe", b"page")
        assert os.read(descriptor, 10) == b"page"
    finally:
        os.close(descriptor)


HOLDER = """
import sys
from pykbroker.pipeline.storage import LocalStorage
with LocalStorage(sys.argv[1]).lock("lock"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_has_one_holder_until_its_process_ends(storage: LocalStorage) -> None:
    command = [sys.executable, "-c", HOLDER, storage.directory]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StateConflict, match="another process is working on .* now"), storage.lock("lock"):
            raise AssertionError("both hold the lock")
        holder.kill()
        holder.wait(30)
        with storage.lock("lock"):
            assert storage.exists("lock")


@pytest.mark.parametrize("deletions", [1, LOCK_ATTEMPTS - 1, LOCK_ATTEMPTS])
def test_a_lock_that_its_last_holder_deletes_meanwhile_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deletions: int
) -> None:
    """The holder also deletes the directories that it has made."""
    storage, flock, left = LocalStorage(tmp_path / "new"), fcntl.flock, [None] * deletions

    def deleting(descriptor: int, operation: int) -> None:
        if left:
            left.pop()
            storage.delete()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", deleting)
    if deletions == LOCK_ATTEMPTS:
        with pytest.raises(StateConflict, match="another process is working on"), storage.lock("lock"):
            raise AssertionError("the lock is held")
    else:
        with storage.lock("lock"):
            assert storage.exists("lock")


@pytest.mark.parametrize("fails", ["", "in the block", "open", "fsync"])
def test_a_lock_leaves_nothing_that_it_has_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    (tmp_path / "there").mkdir()
    with monkeypatch.context() as patch:
        if fails == "open":
            opened = os.open
            patch.setattr(os, "open", lambda path, *rest: full() if Path(path).name == "lock" else opened(path, *rest))
        elif fails == "fsync":
            patch.setattr(os, "fsync", full)
        for name in ("new/lake", "there"):
            with suppress(PipelineError), LocalStorage(tmp_path / name).lock("own/lock"):
                if fails:
                    raise StateConflict("refused")
    with LocalStorage(tmp_path / "used").lock("own/lock"):
        (tmp_path / "used/file").touch()
    assert sorted(each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*")) == [
        "there",
        "used",
        "used/file",
    ]


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_lock_leaves_no_directory_that_it_has_made_for_the_last_holder_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, make = LocalStorage(tmp_path / "lake"), local_files.make
    (tmp_path / "lake/own").mkdir(parents=True)

    def deleted_before(path: Path) -> list[Path]:
        monkeypatch.setattr(local_files, "make", make)
        made = make(path)
        shutil.rmtree(tmp_path / "lake")
        return made

    monkeypatch.setattr(local_files, "make", deleted_before)
    with lake.lock("own/lock"):
        assert lake.exists("own/lock")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "default", "directory"),
    [
        ("/lake/a b", "file:///", "/lake/a b"),
        ("file:///lake/a%20b", "hdfs://host", "/lake/a b"),
        ("file:/lake", "file:///", "/lake"),
    ],
)
def test_a_path_or_a_uri_of_this_machine_is_local(place: str, default: str, directory: str) -> None:
    assert storage_of(spark_with(default), place).directory == directory


@pytest.mark.parametrize(("place", "default"), [("s3a://bucket/lake", "file:///"), ("/lake", "hdfs://host")])
def test_other_places_belong_to_hadoop(place: str, default: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "HadoopStorage", lambda _, directory: ("hadoop", directory))
    found: Any = storage_of(spark_with(default), place)
    assert found == ("hadoop", place)


def test_a_path_for_readers_of_spark_is_no_pattern() -> None:
    assert literal("/lake/a b,c-1") == "/lake/a b,c-1"
    assert literal(r"/a[1]/{b}*?\c") == r"/a\[1\]/\{b\}\*\?\\c"


def spark_with(default: str) -> Any:
    """Return a session whose default file system is that."""
    configuration = SimpleNamespace(get=lambda *_: default)
    return SimpleNamespace(_jsc=SimpleNamespace(hadoopConfiguration=lambda: configuration))
