"""A small run of every job with each connector, for versions of Spark other than the one that all tests run on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.pipeline.errors import NoConnector
from pykbroker.pipeline.jars import iceberg_package
from tests.interop.one_process import run_here
from tests.interop.pipeline.archived_rows import Content, topic_content
from tests.interop.pipeline.both_formats import BothFormats
from tests.interop.pipeline.faulty_jobs import KEPT, SCHEMA, TIME_MS, value_at
from tests.interop.pipeline.marks import spark_marks
from tools.later_spark import is_later

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [*spark_marks(600), pytest.mark.skipif(not is_later(), reason="this is the Spark of all tests")]
PARTITIONS, RECORDS, BAD = 2, 40, 4


class Jobs:
    """The commands on a topic, run in the session of the tests."""

    def __init__(self, formats: BothFormats, directory: Path, connector: str) -> None:
        self.formats, self.directory, self._connector = formats, directory, connector
        self.topic = formats.topic(PARTITIONS, **KEPT)

    def grow(self, begin: int) -> None:
        """Add the records from a number on, of which every tenth one is no JSON."""
        values = [value_at(number) for number in range(begin, begin + RECORDS // PARTITIONS)]
        for partition in range(PARTITIONS):
            self.formats.feed(self.topic, values, partition, TIME_MS)

    def run(self, job: str, *options: object, has_brokers: bool = True, connector: bool = True) -> dict[str, Any]:
        """Run a job, and return its report, which has no losses."""
        place: Sequence[object] = ("--bootstrap", self.formats.bootstrap) if has_brokers else ()
        reader = ("--connector", self._connector) if connector else ()
        done = run_here("pipeline", job, "--json", *options, *place, *reader)
        assert done.exit_code == 0, done.output
        report: dict[str, Any] = json.loads(done.stdout)
        assert report["losses"] == []
        return report

    def content(self, topic: str) -> list[Content]:
        return topic_content(self.formats.bootstrap, topic)


@pytest.mark.parametrize("connector", ["jvm", "python"])
def test_every_job_runs_on_files(connector: str, formats: BothFormats, tmp_path: Path) -> None:
    jobs = Jobs(formats, tmp_path, connector)
    lake, topics = tmp_path / "lake", ("--topics", jobs.topic)
    for batch in range(2):
        jobs.grow(batch * RECORDS)
        assert jobs.run("archive", *topics, "--to", lake)["records"] == RECORDS
    assert jobs.run("verify", *topics, "--from", lake)["records"] == 2 * RECORDS
    page = tmp_path / "audit.html"
    assert len(jobs.run("audit", *topics, "--from", lake, "--html", page)["sides"]) == 2
    assert "The archive is complete" in page.read_text()

    state = jobs.run(
        *("compact", "--from", lake, "--to", tmp_path / "state", "--null-keys", "drop"),
        has_brokers=False,
        connector=False,
    )
    keys = {each.key for each in jobs.content(jobs.topic)} - {None}
    assert state["keys"] == formats.spark.read.parquet(str(tmp_path / "state")).count() == len(keys)

    copy = formats.topic(PARTITIONS, **KEPT)
    for written in (2 * RECORDS, 0):
        assert jobs.run("replay", "--archive", lake, "--to", copy, connector=False)["records"] == written
    assert jobs.content(copy) == jobs.content(jobs.topic)

    schema, letters = tmp_path / "schema.avsc", formats.topic(1, **KEPT)
    schema.write_text(SCHEMA)
    typed = ("--to", tmp_path / "typed", "--format", "json", "--schema", schema, "--dead-letters", letters)
    report = jobs.run("decode", *topics, *typed)
    assert (report["good"], report["bad"]) == (2 * (RECORDS - BAD), 2 * BAD)
    assert len(jobs.content(letters)) == 2 * BAD


@pytest.mark.parametrize("connector", ["jvm", "python"])
def test_every_job_with_an_archive_runs_on_a_table(connector: str, formats: BothFormats, tmp_path: Path) -> None:
    try:
        iceberg_package()
    except NoConnector as error:
        pytest.skip(str(error))
    jobs = Jobs(formats, tmp_path, connector)
    table, topics = ("--format", "iceberg"), ("--topics", jobs.topic)
    lake = tmp_path / "tables" / "lake"
    for batch in range(2):
        jobs.grow(batch * RECORDS)
        assert jobs.run("archive", *topics, "--to", lake, *table)["records"] == RECORDS
    assert jobs.run("verify", *topics, "--from", lake, *table)["records"] == 2 * RECORDS
    assert len(jobs.run("audit", *topics, "--from", lake, *table)["sides"]) == 2
    state = jobs.run(
        *("compact", "--from", lake, *table, "--to", tmp_path / "state", "--null-keys", "drop"),
        has_brokers=False,
        connector=False,
    )
    assert state["records"] == 2 * RECORDS
    copy = formats.topic(PARTITIONS, **KEPT)
    assert jobs.run("replay", "--archive", lake, *table, "--to", copy, connector=False)["records"] == 2 * RECORDS
    assert jobs.content(copy) == jobs.content(jobs.topic)
