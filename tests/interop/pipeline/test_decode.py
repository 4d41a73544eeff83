"""The job `decode`: typed columns and dead letters, which together are the records of the topics, each once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pyarrow.dataset as ds
import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import PipelineCluster
from pykbroker.pipeline.decoding.framing import framed
from pykbroker.pipeline.decoding.plan import DecodePlan
from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.jobs import small_files
from pykbroker.pipeline.jobs.commits import ArchiveCommits
from pykbroker.pipeline.jobs.decode import DecodeSettings, decode
from pykbroker.pipeline.reading import TopicsToRead
from pykbroker.pipeline.report import JobReport
from pykbroker.pipeline.session import PipelineSession
from tests.interop.pipeline.archived_rows import Content, topic_content
from tests.interop.pipeline.both_formats import PATIENCE_S, BothFormats
from tests.interop.pipeline.marks import spark_marks
from tests.unit.pipeline.decoding.fake_registry import FakeRegistry, fake_registry
from tests.unit.pipeline.decoding.test_columns import encoded, record

TIME_MS = 1_763_971_200_000
JSON = json.dumps(record(("id", "long"), ("name", ["null", "string"])))
FIRST, SECOND = record(("id", "int")), record(("id", "int"), ("name", "string"))
READER = record(("id", "long"), ("name", ["null", "string"]))
READER["fields"][1]["default"] = None

pytestmark = spark_marks()


class Decodings:
    """A topic of two partitions with a topic for its dead letters, and decodings into a directory."""

    def __init__(self, formats: BothFormats, directory: Path) -> None:
        self.formats, self.directory = formats, directory
        self.topic, self.letters = formats.topic(2), formats.topic(1)
        self.said: list[str] = []

    def produce(self, values: list[bytes | None], partition: int = 0) -> None:
        """Write values, whose keys and headers are their numbers."""
        producer = ck.Producer({"bootstrap.servers": self.formats.bootstrap, "linger.ms": 1})
        for number, value in enumerate(values):
            headers: Any = [("n", str(number).encode())]
            producer.produce(self.topic, value, f"k{number}", partition, timestamp=TIME_MS, headers=headers)
        assert producer.flush(PATIENCE_S) == 0

    def run(self, plan: DecodePlan, dead_letters: str | None = None, **options: str) -> JobReport:
        """Decode what the topic has."""
        letters = self.letters if dead_letters is None else dead_letters
        source = TopicsToRead(self.formats.bootstrap, (self.topic,), options=options)
        settings = DecodeSettings(source, str(self.directory), plan, letters)
        return decode(PipelineSession(self.formats.spark, "jvm", ""), settings, self.said.append)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the bare directory, as pyarrow sees them."""
        found = ds.dataset(self.directory, format="parquet", partitioning="hive").to_table().to_pylist()
        return sorted(found, key=lambda row: (row["partition"], row["offset"]))

    def values(self) -> list[Any]:
        """Return the decoded values."""
        return [row["value"] for row in self.rows()]

    def dead(self) -> list[Content]:
        """Return the dead letters."""
        return topic_content(self.formats.bootstrap, self.letters)


@pytest.fixture
def decodings(formats: BothFormats, tmp_path: Path) -> Decodings:
    return Decodings(formats, tmp_path / "typed [1]{2}")  # which Spark's readers take for a pattern


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as found:
        found.add(1, FIRST)
        found.add(2, SECOND)
        yield found


def good(*numbers: int) -> list[bytes | None]:
    return [json.dumps({"id": number, "name": f"n{number}"}).encode() for number in numbers]


def typed(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"n{number}"} for number in numbers]


def test_good_and_bad_records_are_all_records(decodings: Decodings) -> None:
    """A dead letter has the key, the value, the time and the headers of its record, and further headers."""
    decodings.produce([*good(1), b'{"id": "x"}', None, *good(2)])
    decodings.produce([b"\xff", *good(3)], 1)
    report = decodings.run(DecodePlan("json", JSON))
    assert {name: report.figures[name] for name in ("records", "good", "bad")} == {"records": 6, "good": 4, "bad": 2}
    rows = decodings.rows()
    assert [row["value"] for row in rows] == [*typed(1), None, *typed(2, 3)]
    first = {name: rows[0][name] for name in ("key", "topic", "partition", "offset", "date")}
    assert first == {"key": b"k0", "topic": decodings.topic, "partition": 0, "offset": 0, "date": "2025-11-24"}
    assert rows[0]["headers"] == [{"key": "n", "value": b"0"}]
    place = {"__connect.errors.topic": decodings.topic.encode(), "n": b"1", "__connect.errors.partition": b"0"}
    bad = {each.value: each for each in decodings.dead()}
    assert bad.keys() == {b'{"id": "x"}', b"\xff"}
    letter = bad[b'{"id": "x"}']
    assert (letter.key, letter.timestamp) == (b"k1", TIME_MS)
    reason = {
        "__connect.errors.offset": b"1",
        "__connect.errors.exception.message": b"Expected `int`, got `str` - at `$.id`",
    }
    assert dict(letter.headers) == place | reason


def test_a_later_run_continues_and_the_group_has_the_position(decodings: Decodings) -> None:
    plan = DecodePlan("json", JSON)
    decodings.produce([*good(1), b"bad 1"])
    decodings.run(plan)
    decodings.produce([b"bad 2", *good(2), b"bad 3", *good(3)])
    report = decodings.run(plan)
    assert (report.figures["records"], report.figures["bad"]) == (4, 2)
    assert decodings.values() == typed(1, 2, 3)
    assert [each.value for each in decodings.dead()] == [b"bad 1", b"bad 2", b"bad 3"]
    run_id = json.loads((decodings.directory / "_pykbroker/checkpoint/run.json").read_text())["run_id"]
    found = PipelineCluster(decodings.formats.bootstrap).last_committed(f"pykbroker-decode-{run_id}")
    assert {key: each.offset for key, each in found.items()} == {TopicPartition(decodings.topic, 0): 5}


def test_small_files_of_a_day_are_merged(decodings: Decodings, monkeypatch: pytest.MonkeyPatch) -> None:
    tags, time = {"type": "array", "items": "string"}, {"type": "long", "logicalType": "local-timestamp-millis"}
    plan = DecodePlan("json", json.dumps(record(("id", "long"), ("tags", tags), ("at", time))))
    value = b'{"id": %d, "tags": ["a", "b"], "at": "2026-11-24T08:00:00"}'
    decodings.produce([value % 1, None])
    decodings.produce([value % 2], 1)
    decodings.run(plan)
    before = decodings.rows()
    assert len(list(decodings.directory.glob("topic=*/*/*.parquet"))) == 2
    monkeypatch.setattr(small_files, "FILES_MIN", 2)
    assert decodings.run(plan).figures["records"] == 0
    assert decodings.rows() == before
    assert len(list(decodings.directory.glob("topic=*/*/*.parquet"))) == 1


@pytest.mark.parametrize("step", ["before the commit", "after the commit"])
def test_a_batch_that_is_repeated_after_a_crash_is_written_once(
    decodings: Decodings, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The crash comes after the dead letters of the batch are written."""
    decodings.produce([*good(1), b"bad 1", *good(2)])
    decodings.produce([b"bad 2"], 1)
    commit = ArchiveCommits.commit

    def crash(self: ArchiveCommits, each: Any) -> None:
        if step == "after the commit":
            commit(self, each)
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(ArchiveCommits, "commit", crash)
        with pytest.raises(PipelineError, match="killed"):
            decodings.run(DecodePlan("json", JSON))
    assert len(decodings.dead()) == 2
    decodings.produce(good(3))
    decodings.run(DecodePlan("json", JSON))
    assert decodings.values() == typed(1, 2, 3)
    assert sorted(each.value or b"" for each in decodings.dead()) == [b"bad 1", b"bad 2"]


def test_avro_of_several_schemas_has_the_columns_of_the_reader_schema(
    decodings: Decodings, registry: FakeRegistry
) -> None:
    """Schema 3 does not resolve to the reader schema, and there is no schema 9."""
    third = record(("id", "string"))
    registry.add(3, third)
    one, two = framed(1, encoded(FIRST, {"id": 1})), framed(2, encoded(SECOND, {"id": 2, "name": "n2"}))
    decodings.produce([one, two, framed(3, encoded(third, {"id": "x"})), framed(9, b"x"), b"plain", two])
    report = decodings.run(DecodePlan("avro", json.dumps(READER), framing=True, registry=registry.url))
    assert (report.figures["good"], report.figures["bad"]) == (3, 3)
    assert decodings.values() == [{"id": 1, "name": None}, *typed(2, 2)]
    reasons = [dict(each.headers)["__connect.errors.exception.message"].decode() for each in decodings.dead()]
    assert reasons[0].startswith("no Avro record of schema 3 for the reader schema: SchemaResolutionError")
    assert reasons[1:] == [
        "the registry has no schema 9",
        "the value begins with the byte 112, not with the magic byte 0",
    ]


def test_a_registry_that_fails_stops_the_job_and_loses_nothing(decodings: Decodings, registry: FakeRegistry) -> None:
    plan = DecodePlan("avro", json.dumps(READER), framing=True, registry=registry.url)
    decodings.produce([framed(1, encoded(FIRST, {"id": 1})), b"plain"])
    registry.failures += [404] * 4
    with pytest.raises(
        PipelineError, match=rf"the schema registry does not answer {registry.url}/schemas/ids/1: HTTP 404"
    ):
        decodings.run(plan)
    assert decodings.dead() == []
    registry.failures.clear()
    assert decodings.run(plan).figures["bad"] == 1
    assert decodings.values() == [{"id": 1, "name": None}]


def test_a_bad_record_stops_a_job_without_dead_letters(decodings: Decodings) -> None:
    decodings.produce([*good(1), b"{"])
    message = rf"{decodings.topic}-0: the record at offset 1 cannot be decoded: Input data was truncated. Name a topic"
    with pytest.raises(PipelineError, match=message):
        decodings.run(DecodePlan("json", JSON), "")


def test_a_reader_schema_that_changed_is_refused(decodings: Decodings) -> None:
    decodings.produce(good(1))
    decodings.run(DecodePlan("json", JSON))
    decodings.run(DecodePlan("json", json.dumps(json.loads(JSON), indent=2)))
    changed = json.dumps(record(("id", "string")))
    with pytest.raises(StateConflict, match="belongs to a run with reader_schema=[0-9a-f]+, not reader_schema="):
        decodings.run(DecodePlan("json", changed))


def test_topics_for_dead_letters_are_checked(decodings: Decodings) -> None:
    with pytest.raises(PipelineError, match="no topic none-such in cluster .*: create it first"):
        decodings.run(DecodePlan("json", JSON), "none-such")
    with pytest.raises(PipelineError, match="cannot have its own dead letters"):
        decodings.run(DecodePlan("json", JSON), decodings.topic)
