"""The merge of small files beside what is damaged, and beside what no job has written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.errors import PySparkException

from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs import small_files
from pykbroker.pipeline.jobs.commits import COMMITS, ArchiveCommits
from pykbroker.pipeline.jobs.parquet import ParquetFiles
from pykbroker.pipeline.jobs.small_files import merge_files_of_table
from pykbroker.pipeline.spark_errors import file_of
from pykbroker.pipeline.storage import LocalStorage
from tests.unit.pipeline.jobs import lake
from tests.unit.pipeline.jobs.lake import BATCHES, DAYS, Session, archive, require_whole


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an archive whose small files wait for a merge, and its commits for a fold."""
    lake.in_small(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(ParquetFiles, "tidy", lambda _: None)
        archive(tmp_path / "lake")
    return tmp_path / "lake"


def tidied(directory: Path) -> list[str]:
    """Merge and fold. Return what is said."""
    said: list[str] = []
    storage = LocalStorage(directory)
    ParquetFiles(Session(storage), storage, 1 << 20, said.append).tidy()  # type: ignore[arg-type]
    return said


def counts(directory: Path) -> tuple[int, ...]:
    return tuple(len(list((directory / each).glob("*.parquet"))) for each in DAYS)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [(b"]", b"!", r"{} cannot be read: \[FAILED_READ_FILE"), (b"0", b"9", "{} has other records than its commit$")],
)
def test_a_changed_byte_in_a_small_file_keeps_the_files_of_its_day_alone(
    small: Path, old: bytes, new: bytes, reason: str
) -> None:
    assert counts(small) == (BATCHES, BATCHES)
    damaged = next(path for path in (small / DAYS[0]).iterdir() if path.name.startswith("batch-0-"))
    damaged.write_bytes(damaged.read_bytes().replace(old, new))
    [line] = tidied(small)
    assert line.startswith(f"the small files in {small / DAYS[0]} are kept: ")
    with pytest.raises(PipelineError, match=reason.format(damaged)):
        raise PipelineError(line)
    assert counts(small) == (BATCHES, 1)
    assert len(list((small / COMMITS).glob("*.json"))) == 0
    damaged.write_bytes(damaged.read_bytes().replace(new, old))
    assert tidied(small) == []
    require_whole(small)


def test_commits_are_folded_although_a_merge_fails(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise PipelineError("No space left on device")

    monkeypatch.setattr(small_files, "written_files", fail)
    with pytest.raises(PipelineError, match="No space left"):
        tidied(small)
    assert len(list((small / COMMITS).glob("*.json"))) == 0
    assert ArchiveCommits(LocalStorage(small)).read().total.batch == BATCHES - 1


def test_links_directories_and_modes_of_a_day_outlive_a_merge(small: Path) -> None:
    day = small / DAYS[0]
    day.with_name("away").mkdir()
    (day / "link").symlink_to("../away")
    (day / "empty").mkdir()
    (day / "notes.txt").write_bytes(b"mine")
    day.chmod(0o2750)
    assert tidied(small) == []
    assert counts(small) == (1, 1)
    assert (os.readlink(day / "link"), (day / "empty").is_dir(), (day / "notes.txt").read_bytes()) == (
        *("../away", True, b"mine"),
    )
    assert day.stat().st_mode & 0o7777 == 0o2750


def test_a_damaged_file_of_a_table_keeps_its_small_files() -> None:
    spark, said = MagicMock(), list[str]()
    actions = spark._jvm.org.apache.iceberg.spark.actions.SparkActions
    action = actions.get.return_value.rewriteDataFiles.return_value
    action.execute.side_effect = PySparkException("is not a Parquet file: s3a://b/t/data/x%20y.parquet (length 5)")
    table = MagicMock(**{"name.return_value": "c.n.t"})
    assert merge_files_of_table(spark, table, 100, {}, said.append) == 0
    [line] = said
    assert line.startswith("the small files of the table c.n.t are kept: s3a://b/t/data/x%20y.parquet cannot be read: ")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("reading file file:///lake/a%20b.parquet. SQLSTATE: KD001", "/lake/a b.parquet"),
        ("in file file:/lake/x.parquet\n", "/lake/x.parquet"),
        ("File /lake/x.parquet does not exist", "/lake/x.parquet"),
        ("hdfs://host:8020/lake/x.parquet is not a Parquet file", "hdfs://host:8020/lake/x.parquet"),
        ("No space left on device", ""),
    ],
)
def test_the_file_of_an_error_is_found(text: str, path: str) -> None:
    assert file_of(text) == path
