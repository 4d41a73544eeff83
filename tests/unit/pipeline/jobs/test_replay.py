"""The decisions of a replay: targets, groups, transactional ids, and losses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import ClusterFacts
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.commits import OWNER, ArchivedRange
from pykbroker.pipeline.jobs.replay import (
    ReplaySettings,
    archive_identity,
    archive_place,
    claimed_spans,
    job_name,
    losses,
    partitions_lacking,
    target_topics,
    write_target,
)
from pykbroker.pipeline.storage import LocalStorage
from pykbroker.pipeline.writing.position import PositionPlace, SourcePosition

SETTINGS = ReplaySettings("/archive", "b:9092", target="copy")
FACTS = ClusterFacts("c", {"copy": "id-1"}, {"copy": 4})
A0, A5 = TopicPartition("a", 0), TopicPartition("a", 5)


def test_a_target_has_the_place_of_the_source_topic() -> None:
    settings = replace(SETTINGS, target="{topic}.copy", renamed={"b": "c"})
    assert target_topics(settings, {"a", "b"}) == {"a": "a.copy", "b": "c"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": ""}, "a has no target: give one with --to or --rename a=TARGET"),
        ({}, "a and b would both go to copy"),
        ({"topics": ("a", "x")}, "/archive has no records of x between the bounds"),
        ({"renamed": {"y": "z"}}, "/archive has no records of y between the bounds"),
    ],
)
def test_topics_without_a_target_of_their_own_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        target_topics(replace(SETTINGS, **changes), {"a", "b"})


def test_the_default_name_of_a_job_depends_on_archive_and_target_only() -> None:
    name = job_name(SETTINGS, "/archive")
    assert name == job_name(replace(SETTINGS, rate=5.0, end="10", bootstrap="other:9092"), "/archive")
    assert len({name, job_name(replace(SETTINGS, target="t"), "/archive"), job_name(SETTINGS, "/b")}) == 3


def spark_of(run_id: str = "") -> Any:
    """Return a session on local files, whose tables are of a run."""
    jsc = SimpleNamespace(hadoopConfiguration=lambda: {"fs.defaultFS": "file:///"})
    rows = [("owner", "x"), *([("pykbroker.run", run_id)] if run_id else [])]
    conf = SimpleNamespace(set=lambda key, value: None)
    return SimpleNamespace(_jsc=jsc, conf=conf, sql=lambda text: SimpleNamespace(collect=lambda: rows))


@pytest.mark.parametrize("format_", ["parquet", "iceberg"])
def test_an_archive_has_one_place_in_all_spellings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    lake = tmp_path / "ns" / "lake"
    lake.mkdir(parents=True)
    (tmp_path / "link").symlink_to(lake.parent)
    monkeypatch.chdir(tmp_path)
    spellings = (f"{lake}", f"{lake}/", "ns/lake", "./ns/../ns/lake", "link/lake", f"file://{lake}", f"file:{lake}/")
    found = {archive_place(spark_of(), replace(SETTINGS, archive=each, format=format_)) for each in spellings}
    assert found == {str(lake)}
    table = replace(SETTINGS, archive="c.ns.lake", format="iceberg")
    assert archive_place(spark_of(), table) == "c.ns.lake"


def test_an_archive_is_identified_by_its_run_or_its_place(tmp_path: Path) -> None:
    """An archive that was made again at the same place is another one."""
    place = str(tmp_path / "ns" / "lake")
    files, table = replace(SETTINGS, archive=place), replace(SETTINGS, archive=place, format="iceberg")
    assert archive_identity(spark_of(), files) == place
    LocalStorage(place).write(OWNER, b'{"run_id": "run-1"}')
    assert archive_identity(spark_of(), files) == "run-1"
    assert [archive_identity(spark_of(run), table) for run in ("run-1", "run-2", "")] == ["run-1", "run-2", place]


def test_a_source_partition_has_a_transactional_id_and_a_position() -> None:
    found = write_target("job", "run-1", A5, "copy", FACTS, SETTINGS)
    assert (found.transactional_id, found.partition) == ("job-a-5", 5)
    assert found.place == PositionPlace("job", "copy", 5)
    assert found.facts["topic_id"] == "id-1"


def test_a_partition_by_key_needs_a_group_for_each_source_partition() -> None:
    """The target may lack a partition with the number of the source, and offsets need one that exists."""
    found = write_target("job", "run-1", A5, "copy", FACTS, replace(SETTINGS, partition_by="key"))
    assert (found.transactional_id, found.partition) == ("job-a-5", None)
    assert found.place == PositionPlace("job.5", "copy", 0)


def test_a_target_needs_the_highest_partition_of_its_sources() -> None:
    assert partitions_lacking([A0, TopicPartition("a", 3)], {"a": "copy"}, FACTS) == {}
    assert partitions_lacking([A0, A5], {"a": "copy"}, FACTS) == {"copy": 6}


def test_records_that_are_missing_or_double_are_losses() -> None:
    """Only the records of this run count, since the archive may have lost earlier ones by retention."""
    expected, before = {A0: 10}, [SourcePosition(5, 5), SourcePosition(7, 7)]
    assert losses(expected, [A0, A5], before, [SourcePosition(15, 15), SourcePosition(7, 7)]) == []
    found = losses(expected, [A0, A5], before, [SourcePosition(14, 14), SourcePosition(8, 8)])
    assert found == [
        "a-0: the archive had 10 records to write, and 9 are written, up to offset 14",
        "a-5: the archive had 0 records to write, and 1 are written, up to offset 8",
    ]


def test_all_records_are_compared_with_the_commits_whatever_the_bounds_are() -> None:
    """A row has what a partition holds as a whole, and what it has between the bounds."""
    claimed = {A0: ArchivedRange(0, 0, 9, 10, 77, topic="a"), A5: ArchivedRange(5, 3, 4, 2, 8, topic="a")}
    rows = [("a", 0, 0, 9, 10, 77, 5, 9, 5), ("a", 5, 3, 4, 2, 8, None, None, 0)]
    for settings in (SETTINGS, replace(SETTINGS, start="5", topics=("a",))):
        assert claimed_spans(claimed, rows, settings) == {A0: ArchivedRange(0, 5, 9, 5, topic="a")}
        for other, match in (
            (("a", 5, 3, 4, 2, 9, None, None, 0), "a-5: the archive's files have other contents than the 2 rec"),
            (("a", 5, 3, 4, 1, 8, None, None, 0), "a-5: the archive's files have 1 record .* Nothing was writ"),
        ):
            with pytest.raises(PipelineError, match=match):
                claimed_spans(claimed, [rows[0], other], settings)
