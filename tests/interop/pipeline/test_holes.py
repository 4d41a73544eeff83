"""Holes in an archive: no job that reads it goes on without the records that its commits claim."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs import archived as reading
from pykbroker.pipeline.jobs import compact as compacting
from pykbroker.pipeline.jobs import replay as replaying
from pykbroker.pipeline.jobs import verify as verifying
from pykbroker.pipeline.jobs.archived import claims_of
from pykbroker.pipeline.jobs.archived_files import FileChange
from pykbroker.pipeline.jobs.audit import AuditSettings, audit
from pykbroker.pipeline.jobs.commits import ArchiveCommits
from pykbroker.pipeline.jobs.compact import CompactSettings, compact
from pykbroker.pipeline.jobs.replay import ReplaySettings, replay
from pykbroker.pipeline.report import ExitCode, JobReport
from pykbroker.pipeline.schema import with_times
from pykbroker.pipeline.storage import LocalStorage
from tests.interop.pipeline.archive_jobs import Archives
from tests.interop.pipeline.archived_rows import topic_content
from tests.interop.pipeline.both_formats import BothFormats
from tests.interop.pipeline.marks import spark_marks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tools.broker_process import BrokerProcess

pytestmark = spark_marks()
RECORDS = 60


class Holes:
    """A copy of an archive of two batches, of which a file may be away."""

    def __init__(self, formats: BothFormats, directory: Path, lake: Path) -> None:
        self.formats, self.directory = formats, directory
        self.archives, self.copy = Archives(formats.spark, formats.bootstrap, directory), formats.topic(1)
        shutil.copytree(lake, directory / "lake")
        self.file = min(self.archives.files("lake"), key=lambda each: each.name.split("batch-")[1])
        self.kept = directory / "kept"

    def replay(self, **settings: Any) -> JobReport:
        given: dict[str, Any] = {
            "archive": self.archives.path("lake"),
            "bootstrap": self.formats.bootstrap,
            "target": self.copy,
        }
        return replay(self.archives.session, ReplaySettings(**given, **settings), print)

    def compact(self) -> JobReport:
        settings = CompactSettings(self.archives.path("lake"), self.archives.path("state"), null_keys="drop")
        return compact(self.archives.session, settings, print)

    def audit(self) -> JobReport:
        return audit(self.archives.session, AuditSettings(None, self.archives.path("lake")), print)

    def written(self) -> int:
        return len(topic_content(self.formats.bootstrap, self.copy))

    def check_replay(self, match: str) -> None:
        """Replay with a file away, and again once it is back."""
        self.file.rename(self.kept)
        for settings in ({}, {"start": "0", "end": f"{RECORDS}"}):
            with pytest.raises(PipelineError, match=match):
                self.replay(**settings)
        assert self.written() == 0
        self.kept.rename(self.file)
        assert self.replay().losses == []
        assert self.written() == RECORDS


@pytest.fixture(scope="module")
def lake(spark: SparkSession, spark_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an archive of two batches."""
    formats, directory = BothFormats(spark, spark_broker.address), tmp_path_factory.mktemp("holes")
    archives, topic = Archives(spark, formats.bootstrap, directory), formats.topic(1)
    for first in (0, RECORDS // 2):
        formats.feed(topic, [f"{each}" for each in range(first, first + RECORDS // 2)], 0)
        archives.archive(archives.source(topic), "lake")
    return directory / "lake"


@pytest.fixture
def holes(formats: BothFormats, tmp_path: Path, lake: Path) -> Holes:
    return Holes(formats, tmp_path, lake)


def passing_missing_files(patch: pytest.MonkeyPatch) -> None:
    """Plant the bug of a list of files that is taken as it is."""
    patch.setattr(reading, "damages", lambda *_: [])


def test_a_file_that_is_away_stops_every_job(holes: Holes) -> None:
    holes.compact()
    state = sorted(each.name for each in (holes.directory / "state").iterdir())
    name = holes.file.name.replace(".", r"\.")
    holes.check_replay(f"{name} is missing, which has 30 records")
    holes.file.rename(holes.kept)
    with pytest.raises(PipelineError, match=f"{name} is missing"):
        holes.compact()
    assert sorted(each.name for each in (holes.directory / "state").iterdir()) == state
    report = holes.audit()
    assert report.exit_code == ExitCode.LOSS
    assert [name for each in report.losses if "is missing, which has 30 records" in each]
    assert [each for each in report.losses if "-0: the archive's files have 30 records from offset 30" in each]


def test_records_that_no_file_has_stop_every_job(holes: Holes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts find a hole that the names of the files do not."""
    passing_missing_files(monkeypatch)
    holes.check_replay("have 30 records from offset 30 to 59, and its commits 60 records from offset 0 to 59")
    holes.file.rename(holes.kept)
    with pytest.raises(PipelineError, match="have 30 records .* and its commits 60 .* Nothing was written"):
        holes.compact()
    assert not (holes.directory / "state").exists()


def test_records_with_other_contents_are_found_by_their_checksum(holes: Holes, monkeypatch: pytest.MonkeyPatch) -> None:
    def forging(records: Any) -> Any:
        from pyspark.sql import functions as f

        value = f.when(f.col("offset") == 37, f.lit(b"forged")).otherwise(f.col("value"))
        return with_times(records).withColumn("value", value)

    monkeypatch.setattr(reading, "with_times", forging)
    for run in (holes.replay, partial(holes.replay, start="20"), holes.compact):
        with pytest.raises(
            PipelineError, match="other contents than the 60 records from offset 0 to 59 of its commits"
        ):
            run()
    assert holes.written() == 0
    claims = claims_of(LocalStorage(holes.directory / "lake"))
    [(key, every)], newer = claims.ranges.items(), claims.batches[1]
    of_before = claims._replace(ranges={key: replace(every, checksum=None)}, proven={key: newer})
    monkeypatch.setattr(reading, "claims_of", lambda _: of_before)  # the first batch has no checksum
    with pytest.raises(PipelineError, match="other contents than the 30 records from offset 30 to 59 of its commits"):
        holes.compact()


def replace_a_file(lake: Path) -> None:
    """Give a file another name, as a merge gives its records to another file."""
    commits = ArchiveCommits(LocalStorage(lake))
    old, content = min(commits.read().files.items())
    new = old.replace(".parquet", "-merged.parquet")
    assert commits.replace_files(FileChange([old], {new: content}), lambda: bool((lake / old).rename(lake / new)))
    commits.fold()


def test_a_merge_in_the_middle_of_a_job_is_no_loss(holes: Holes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is replaced before `verify` reads it, and before the others read it for the second time."""
    left: list[str] = []

    def replacing(name: str, action: Any) -> Any:
        def replaced(*given: Any, **named: Any) -> Any:
            if name in left:
                left.remove(name)
                replace_a_file(holes.directory / "lake")
            return action(*given, **named)

        return replaced

    points = [(verifying, "held_records"), (compacting, "require_content"), (replaying, "limit_batches")]
    for job, name in points:
        monkeypatch.setattr(job, name, replacing(name, getattr(job, name)))
        left.append(name)
    verified, compacted, replayed = holes.archives.prove("lake"), holes.compact(), holes.replay()
    assert left == []
    for report in (verified, compacted, replayed):
        assert (report.losses, report.figures["records"]) == ([], RECORDS)
    assert holes.written() == RECORDS
