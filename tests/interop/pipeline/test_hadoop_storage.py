"""Archives on a file system of Hadoop. A mount table of `viewfs` maps it to a local directory, so that nothing is local
to the jobs, and files can still be compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.report import ExitCode
from pykbroker.pipeline.storage import HadoopStorage, StoredFile, storage_of
from tests.interop.pipeline.archive_jobs import Archives
from tests.interop.pipeline.both_formats import BothFormats, numbers

MOUNT = "pykbroker-test"

pytestmark = [
    pytest.mark.timeout(120, func_only=True),  # the session is prepared before the first test
    pytest.mark.filterwarnings("ignore"),  # the Java version and jars of pyspark
]


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
    storage.rename("c", "d/e")
    staging = storage.sibling(".staging")
    staging.write("x", b"1")
    storage.take(staging, "x", "topic=t/x")
    assert [each.path for each in storage.files()] == ["a/b", "d/e", "topic=t/x"]
    assert staging.files() == []
    assert not storage.exchange("a", staging, "x")
    for name in ("a", "d/e", "topic=t", "missing"):
        storage.delete(name)
    assert storage.files() == []


def test_failures_name_the_file(storage: HadoopStorage) -> None:
    with pytest.raises(PipelineError, match="lake/missing"):
        storage.read("missing")
    with pytest.raises(PipelineError, match="lake/missing"):
        storage.rename("missing", "x")
    with pytest.raises(PipelineError, match="is not local"):
        storage.link(storage, "a", "b")


def test_an_archive_is_written_continued_and_verified(formats: BothFormats, mounted: Path) -> None:
    archives = RemoteArchives(formats.spark, formats.bootstrap, mounted)
    topic = formats.topic()
    formats.feed(topic, [*numbers(0, 50), None, ""], 0)
    source, checkpoint = archives.source(topic), archives.path("checkpoint")
    assert archives.archive(source, "lake", checkpoint=checkpoint).figures["records"] == 52
    formats.feed(topic, numbers(50, 60), 1)
    assert archives.archive(source, "lake", checkpoint=checkpoint).figures["records"] == 10
    assert archives.rows("lake") == formats.rows("kafka", subscribe=topic, includeHeaders="true")
    report = archives.verify(source, "lake")
    assert (report.exit_code, report.losses, report.figures["records"]) == (ExitCode.DONE, [], 62)
    with pytest.raises(StateConflict, match="belongs to a run with target="):
        archives.archive(source, "other", checkpoint=checkpoint)
    archives.files("lake")[0].unlink()
    assert archives.verify(source, "lake").exit_code != ExitCode.DONE
