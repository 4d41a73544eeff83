"""The jobs on a file system of Hadoop. A mount table of `viewfs` maps it to a local directory, so that nothing is local
to the jobs, and files can still be compared."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.dataset as ds
import pytest

from pykbroker.pipeline import storage as storage_module
from pykbroker.pipeline.audit.findings import AuditFindings
from pykbroker.pipeline.audit.page import audit_page
from pykbroker.pipeline.errors import NoExchange, PipelineError, StateConflict
from pykbroker.pipeline.jobs.audit import require_directory, write_page
from pykbroker.pipeline.jobs.commits import COMMITS, PENDING, ArchiveCommit, ArchiveCommits
from pykbroker.pipeline.jobs.compact import CompactSettings, compact
from pykbroker.pipeline.jobs.state_owner import StateOwner
from pykbroker.pipeline.jobs.state_renames import OLD, StateRenames
from pykbroker.pipeline.report import ExitCode
from pykbroker.pipeline.storage import LEFT_S_MIN, HadoopStorage, StoredFile, storage_of
from tests.interop.pipeline.archive_jobs import Archives
from tests.interop.pipeline.both_formats import BothFormats, numbers
from tests.interop.pipeline.marks import spark_marks

MOUNT = "pykbroker-test"
OWNER = StateOwner("compact", "/lake", "parquet", [])

pytestmark = spark_marks()


class RemoteArchives(Archives):
    """Archives in a directory that the jobs reach as `viewfs` only."""

    def path(self, target: str) -> str:
        return f"viewfs://{MOUNT}/mounted/{target}"


@pytest.fixture
def mounted(spark: Any, tmp_path: Path) -> Iterator[Path]:
    """Yield the local directory behind viewfs://MOUNT/mounted."""
    configuration = spark._jsc.hadoopConfiguration()
    link = f"fs.viewfs.mounttable.{MOUNT}.link./mounted"
    configuration.set(link, tmp_path.as_uri())
    configuration.set("fs.viewfs.impl.disable.cache", "true")  # another test has another directory
    yield tmp_path
    configuration.unset(link)


@pytest.fixture
def storage(spark: Any, mounted: Path) -> HadoopStorage:
    found = storage_of(spark, f"viewfs://{MOUNT}/mounted/lake")
    assert isinstance(found, HadoopStorage)
    return found


def test_files_are_written_replaced_listed_moved_and_deleted(storage: HadoopStorage, mounted: Path) -> None:
    assert (storage.exists(), storage.files()) == (False, [])
    storage.write("a/b", b"one")
    storage.write("a/b", b"three")
    storage.write("c", b"")
    assert (storage.read("a/b"), (mounted / "lake/a/b").read_bytes()) == (b"three", b"three")
    assert storage.files() == [StoredFile("a/b", 5), StoredFile("c", 0)]
    assert storage.files("a") == [StoredFile("a/b", 5)]
    assert storage.size("a/b") == 5
    storage.rename("c", "d/e")
    staging = storage.sibling(".staging")
    staging.write("x", b"1")
    storage.take(staging, "x", "topic=t/x")
    assert [each.path for each in storage.files()] == ["a/b", "d/e", "topic=t/x"]
    assert staging.files() == []
    with pytest.raises(NoExchange, match="lake/a cannot be exchanged"):
        storage.exchange("a", staging, "x")
    storage.create("a/new", b"1")
    with pytest.raises(StateConflict, match="a/new exists: another run is writing"):
        storage.create("a/new", b"2")
    assert [(each.path, storage.read(each.path)) for each in storage.files("a")] == [("a/b", b"three"), ("a/new", b"1")]
    for name in ("a", "d/e", "topic=t", "missing"):
        storage.delete(name)
    assert storage.files() == []


def test_failures_name_the_file(storage: HadoopStorage) -> None:
    with pytest.raises(PipelineError, match="lake/missing"):
        storage.read("missing")
    with pytest.raises(PipelineError, match="lake/missing"):
        storage.rename("missing", "x")


def test_files_of_other_runs_are_kept_for_a_day(storage: HadoopStorage, mounted: Path) -> None:
    storage.write("old-1/file", b"")
    storage.write("new-1/file", b"")
    storage.write("old-2", b"")
    for name, age_s in {"old-1": LEFT_S_MIN + 60, "new-1": LEFT_S_MIN + 60, "old-2": LEFT_S_MIN - 60}.items():
        os.utime(mounted / "lake" / name, (time.time() - age_s,) * 2)
    storage.delete_leftovers("", re.compile("old-[0-9]"))
    assert [each.path for each in storage.files()] == ["new-1/file", "old-2"]
    for name in ("old-2", "new-1"):
        storage.delete(name)
    storage.delete_leftovers("", re.compile("old-[0-9]"))
    assert not storage.exists()
    storage.delete_leftovers("", re.compile("old-[0-9]"))


def test_of_two_commits_of_a_batch_one_appears(storage: HadoopStorage) -> None:
    """Two runs have written the files of a batch, for a file system of Hadoop has no lock."""
    commits = [ArchiveCommits(storage) for _ in range(2)]
    for index, each in enumerate(commits):
        each.open("run", is_new=index == 0)
        storage.write(f"{each.staging}/part", b"records")
    one, two = (
        ArchiveCommit(0, {f"{each.staging}/part": f"topic=t/{index}.parquet"}, []) for index, each in enumerate(commits)
    )
    commits[0].commit(one)
    with pytest.raises(StateConflict, match="another run is writing"):
        commits[1].commit(two)
    storage.create(f"{COMMITS}/0000000000{PENDING}", msgspec.json.encode(two))  # the crash of the second run
    commits[1].open("run", is_new=False)
    assert [each.path for each in storage.files("topic=t")] == ["topic=t/0.parquet"]
    assert not commits[1].is_pending()


class Crash(BaseException):
    """The end of the process."""


def replace_state(storage: HadoopStorage, content: bytes) -> None:
    """Replace a state, as a job does."""
    renames = StateRenames(storage, storage.sibling(".staging"))
    renames.open(OWNER)
    name = renames.new_directory.rpartition("/")[2]
    storage.sibling(".staging").write(f"{name}/part.parquet", content)
    renames.publish(OWNER)
    renames.close()


@pytest.mark.parametrize(("step", "left"), [("take", b"old"), ("delete", b"new")])
def test_a_crash_while_a_state_is_replaced_leaves_one_of_both(
    storage: HadoopStorage, mounted: Path, monkeypatch: pytest.MonkeyPatch, step: str, left: bytes
) -> None:
    """The crash comes after the first rename, or after the second one."""
    state = mounted / "lake/part.parquet"
    for content in (b"older", b"old"):
        replace_state(storage, content)
        assert state.read_bytes() == content
        assert not (mounted / "lake.staging").exists()
    done = getattr(HadoopStorage, step)

    def crashing(self: HadoopStorage, *arguments: Any) -> None:
        if arguments[-1] == "" or (arguments[-1].startswith(OLD) and step == "delete"):
            raise Crash
        done(self, *arguments)

    with monkeypatch.context() as crash:
        crash.setattr(HadoopStorage, step, crashing)
        with pytest.raises(Crash):
            replace_state(storage, b"new")
    assert state.exists() == (step == "delete")
    StateRenames(storage, storage.sibling(".staging")).open(OWNER)
    assert state.read_bytes() == left
    assert not list((mounted / "lake.staging").glob(f"{OLD}*"))


def test_a_state_of_something_else_is_kept(storage: HadoopStorage) -> None:
    storage.write("cat.jpg", b"cat")
    with pytest.raises(StateConflict, match="files that are no state"):
        replace_state(storage, b"new")
    assert [each.path for each in storage.files()] == ["cat.jpg"]


def test_only_states_are_renamed_back_or_deleted(storage: HadoopStorage, mounted: Path) -> None:
    """A crash of an earlier version has left the only state in its own staging directory."""
    replace_state(storage, b"old")
    (mounted / "lake.staging").mkdir()
    (mounted / "lake").rename(mounted / "lake.staging" / f"{OLD}12345678")
    foreign = [
        mounted / f"lake{suffix}" / name / "cat.jpg"
        for suffix in (".staging", ".pykbroker-staging")
        for name in (f"{OLD}photos", f"{OLD}87654321")
    ]
    for each in foreign:
        each.parent.mkdir(parents=True)
        each.write_bytes(b"cat")
    StateRenames(storage, storage.sibling(".pykbroker-staging")).open(OWNER)
    assert (mounted / "lake/part.parquet").read_bytes() == b"old"
    assert all(each.exists() for each in foreign)


def test_a_store_of_objects_has_no_states(storage: HadoopStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "RENAMES_DIRECTORIES", frozenset())
    with pytest.raises(PipelineError, match="cannot rename a directory in one step: choose a local directory"):
        replace_state(storage, b"")
    assert not storage.sibling(".staging").exists()


def test_the_page_of_an_audit_is_written(spark: Any, mounted: Path) -> None:
    page, local = f"viewfs://{MOUNT}/mounted/new/page.html", mounted / "of this machine.html"
    require_directory(page)
    findings = AuditFindings(0, "", [])
    assert write_page(spark, page, findings) == page
    assert write_page(spark, local.as_uri(), findings) == write_page(spark, str(local), findings) == local.as_uri()
    assert (mounted / "new/page.html").read_text() == local.read_text() == audit_page(findings)


def test_an_archive_is_written_continued_and_verified(formats: BothFormats, mounted: Path) -> None:
    archives = RemoteArchives(formats.spark, formats.bootstrap, mounted)
    topic = formats.topic()
    formats.feed(topic, [*numbers(0, 50), None, ""], 0)
    source, checkpoint = archives.source(topic), archives.path("checkpoint")
    assert archives.archive(source, "lake", checkpoint=checkpoint).figures["records"] == 52
    formats.feed(topic, numbers(50, 60), 1)
    assert archives.archive(source, "lake", checkpoint=checkpoint).figures["records"] == 10
    assert archives.rows("lake") == formats.rows("kafka", subscribe=topic, includeHeaders="true")
    state = CompactSettings(archives.path("lake"), archives.path("state"), null_keys="drop")
    keys = {row[0] for row in archives.rows("lake")} - {None}
    assert compact(archives.session, state, print).figures["keys"] == len(keys)
    assert ds.dataset(mounted / "state").count_rows() == len(keys)
    report = archives.verify(source, "lake")
    assert (report.exit_code, report.losses, report.figures["records"]) == (ExitCode.DONE, [], 62)
    with pytest.raises(StateConflict, match="belongs to a run with target="):
        archives.archive(source, "other", checkpoint=checkpoint)
    archives.files("lake")[0].unlink()
    assert archives.verify(source, "lake").exit_code != ExitCode.DONE
