"""The job `verify`: it finds planted losses, and explains what transactions, compaction and retention have removed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.report import ExitCode, JobReport
from tests.interop.pipeline.archive_jobs import Archives, edit
from tests.interop.pipeline.archived_rows import topic_content
from tests.interop.pipeline.both_formats import PATIENCE_S, BothFormats, numbers
from tests.interop.pipeline.marks import spark_marks

pytestmark = spark_marks()


def of_records(report: JobReport) -> list[str]:
    """Return the losses of a report without those about the sizes of files, which an edited file has too."""
    return [each for each in report.losses if "bytes in place of" not in each]


def test_planted_losses_are_found_by_kind_and_offset(formats: BothFormats, archives: Archives) -> None:
    topic, other = formats.topic(4), formats.topic(1)
    for partition in range(4):
        formats.feed(topic, numbers(0, 20), partition)
    formats.feed(other, numbers(0, 5))
    source = archives.source(topic, other)
    archives.archive(source, "lake", file_bytes_min=0)
    assert archives.verify(source, "lake").losses == []

    def damage(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        partition = rows[0]["partition"]
        if partition == 0:
            return [row for row in rows if row["offset"] not in (3, 4, 17)]
        if partition == 1:
            return [*rows, rows[5]]
        if partition == 2:
            rows[7]["value"] = b"altered"
            rows[9]["key"], rows[9]["value"] = rows[9]["value"], None  # the same bytes, but elsewhere
            rows[8]["headers"] = []
            rows[1]["headers"][2]["value"] = b""
            return rows
        return rows[:-2]  # the end of a partition

    for path in archives.files("lake"):
        if topic in str(path):
            edit(path, damage)
    report = archives.verify(source, "lake")
    assert report.exit_code == ExitCode.LOSS
    assert of_records(report) == [
        f"{topic}-0: 3 records are missing in the archive, between the offsets 3 and 17",
        f"{topic}-1: the record at offset 5 is in the archive more than once",
        f"{topic}-2: 4 records differ from those of the topic, between the offsets 1 and 9",
        f"{topic}-3: 2 records are missing in the archive, between the offsets 18 and 19",
        f"{topic}-0: the archive's files have 17 records, and its commits 20",
        f"{topic}-1: the archive's files have 21 records, and its commits 20",
        f"{topic}-3: the archive's files have 18 records, and its commits 20",
    ]


def test_lost_and_damaged_files_are_losses(formats: BothFormats, archives: Archives) -> None:
    topic = formats.topic(2)
    formats.feed(topic, numbers(0, 20), 0)
    formats.feed(topic, numbers(20, 30), 1)
    source = archives.source(topic)
    archives.archive(source, "lake", file_bytes_min=0)
    one, two = archives.files("lake")
    one.rename(archives.path("away"))
    report = archives.verify(source, "lake")
    lost = {"0": 20, "1": 10}
    partition = next(key for key in lost if f"{topic}-{key}: {lost[key]} records are missing" in report.losses[0])
    assert (
        f"{topic}-{partition}: the archive's files have 0 records, and its commits {lost[partition]}" in report.losses
    )
    shutil.copy(archives.path("away"), one)
    two.write_bytes(two.read_bytes()[:-50])
    report = archives.verify(source, "lake")
    assert (report.exit_code, len(report.losses)) == (ExitCode.LOSS, 1)
    assert "a file of the archive cannot be read" in report.losses[0]


def test_records_that_compaction_has_removed_are_explained(formats: BothFormats, archives: Archives) -> None:
    topic = formats.topic(
        1, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001", max_compaction_lag_ms="100"
    )
    formats.feed(topic, numbers(0, 30), is_keyed=True)
    source = archives.source(topic)
    archives.archive(source, "lake", file_bytes_min=0)
    formats.feed(topic, numbers(30, 60), is_keyed=True)  # successors that no archive has yet
    deadline = time.monotonic() + PATIENCE_S
    while len(topic_content(formats.bootstrap, topic)) > 40:
        assert time.monotonic() < deadline, "the log is not compacted"
        formats.feed(topic, ["x"], is_keyed=True)  # closes the segment
    report = archives.verify(source, "lake")
    assert report.losses == []
    assert report.figures["compacted"] >= 15
    [path] = archives.files("lake")

    def plant(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows[11]["key"] = b"never produced"
        return rows

    edit(path, plant)
    assert of_records(archives.verify(source, "lake")) == [
        f"{topic}-0: the record at offset 11 is in the archive alone",
        f"{topic}-0: between the offsets 0 and 29 the archive has other records than its commits",
    ]


def test_the_archive_of_another_topic_is_no_proof(formats: BothFormats, archives: Archives) -> None:
    topic = formats.topic(2)
    formats.feed(topic, numbers(0, 10), 1)
    source = archives.source(topic)
    archives.archive(source, "lake")
    formats.delete_topic(topic)
    formats.topic(2, topic)
    formats.feed(topic, numbers(0, 3), 1, linger_ms="0")
    report = archives.verify(source, "lake")
    assert f"verify: topic {topic} was deleted and created again since the archive began" in archives.lines
    assert report.losses == [
        f"{topic}-1: the archive has records up to offset 9, and the log ends at 3",
        f"{topic}-1: 3 records differ from those of the topic, between the offsets 0 and 2",
    ]
    formats.delete_topic(topic)
    formats.topic(1, topic)
    with pytest.raises(PipelineError, match=f"the archive has {topic}-1, which the cluster lacks"):
        archives.verify(source, "lake")


def test_a_missing_archive_is_named(formats: BothFormats, archives: Archives) -> None:
    topic = formats.topic(1)
    with pytest.raises(PipelineError, match=f"no archive at {archives.path('none')}"):
        archives.verify(archives.source(topic), "none")
    with pytest.raises(PipelineError, match="no table .* at"):
        archives.verify(archives.source(topic), "none/table", "iceberg")
    Path(archives.path("empty")).mkdir()
    with pytest.raises(PipelineError, match=f"empty has neither records nor commits of {topic}"):
        archives.verify(archives.source(topic), "empty")
    archives.archive(archives.source(topic), "lake")
    assert archives.verify(archives.source(topic), "lake").figures["records"] == 0  # so has the topic
    with pytest.raises(PipelineError, match="no topic missing in cluster"):
        archives.verify(archives.source("missing"), "none")
