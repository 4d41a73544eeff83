"""The job `compact` on archives of Parquet files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.jobs.compact import CompactSettings, compact
from pykbroker.pipeline.jobs.iceberg import table_name
from pykbroker.pipeline.jobs.state_table import OWNED_BY
from pykbroker.pipeline.report import JobReport
from pykbroker.pipeline.session import PipelineSession
from tests.interop.pipeline.archived_rows import Archived, write_archive
from tests.interop.pipeline.marks import spark_marks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = spark_marks()


class Row(NamedTuple):
    """A record of an archive. The timestamp is in seconds."""

    key: str | None
    value: str | None
    partition: int = 0
    offset: int = 0
    timestamp: float = 0
    topic: str = "orders"


ROWS = [
    Row("a", "a1", 0, 0, 5),
    Row("b", "b1", 0, 1, 6),
    Row("a", "a2", 0, 2, 1),  # the later offset counts, whatever its timestamp
    Row("b", None, 0, 3, 7),
    Row("c", None, 0, 4, 8),
    Row("c", "c1", 0, 5, 9),
    Row("d", "d1", 0, 6, 20),
    Row("d", "d2", 1, 0, 10),  # in another partition, the later timestamp counts
    Row("e", "e1", 0, 7, 30),
    Row("e", "e2", 1, 8, 30),  # at equal timestamps, the later offset
    Row("", "no text", 1, 9, 1),
    Row("f", "", 1, 10, 1),
    Row("a", "another topic", 0, 0, 0, "users"),
]
STATE = {
    ("orders", "a"): "a2",
    ("orders", "c"): "c1",
    ("orders", "d"): "d1",
    ("orders", "e"): "e2",
    ("orders", ""): "no text",
    ("orders", "f"): "",
    ("users", "a"): "another topic",
}
Archive = Callable[[Iterable[Row]], str]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Return a function that writes the archive of rows, and returns its directory."""

    def write(rows: Iterable[Row]) -> str:
        target = tmp_path / "lake"
        shutil.rmtree(target, ignore_errors=True)
        write_archive(target, [archived(row) for row in rows], 1)
        return str(target)

    return write


def archived(row: Row) -> Archived:
    """Return a row as that of an archive."""
    key, value = (None if text is None else text.encode() for text in (row.key, row.value))
    time = datetime.fromtimestamp(row.timestamp, UTC)
    return key, value, row.topic, row.partition, row.offset, time, 0, [("h", b"1")]


def run(spark: SparkSession, archive: str, target: Path, **settings: Any) -> JobReport:
    """Run the job."""
    return compact(PipelineSession(spark, "jvm", ""), CompactSettings(archive, str(target), **settings), print)


def state(target: Path) -> dict[tuple[str, str], str]:
    """Return the state that pyarrow reads from the bare directory."""
    rows = pq.read_table(target).to_pylist()
    found = {(row["topic"], row["key"].decode()): row["value"].decode() for row in rows}
    assert len(found) == len(rows)
    assert all(row["headers"] == [{"key": "h", "value": b"1"}] for row in rows)
    return found


def test_the_latest_value_of_each_key_is_kept(spark: SparkSession, archive: Archive, tmp_path: Path) -> None:
    source, target = archive(ROWS), tmp_path / "state [1]{2}"
    reports = [run(spark, source, target) for _ in range(2)]
    assert state(target) == STATE
    assert [path.name for path in target.iterdir() if not path.name.endswith(".parquet")] == ["_pykbroker"]
    expected = {"records": 13, "keys": 7, "tombstones": 1, "null_keys": 0, "topics": {"orders": 12, "users": 1}}
    assert [report.figures for report in reports] == [{**expected, "target": str(target)}] * 2


def test_a_new_run_replaces_the_state(spark: SparkSession, archive: Archive, tmp_path: Path) -> None:
    target = tmp_path / "state"
    run(spark, archive(ROWS), target, topics=("orders",))
    assert len(state(target)) == 6
    gone = [Row(key, None, 0, 100) for key in "acdef"]
    report = run(spark, archive([*ROWS, *gone]), target, topics=("orders",))
    kept = {"": "no text", "d": "d2", "e": "e2", "f": ""}  # a later timestamp in partition 1 counts more
    assert state(target) == {("orders", key): value for key, value in kept.items()}
    assert report.figures["tombstones"] == 3


def test_records_without_a_key_are_refused_or_counted(spark: SparkSession, archive: Archive, tmp_path: Path) -> None:
    source, target = archive([*ROWS, Row(None, "x", 0, 50), Row(None, None, 0, 51)]), tmp_path / "state"
    with pytest.raises(PipelineError, match="topic orders has 2 records without a key.*--null-keys drop"):
        run(spark, source, target)
    assert not target.exists()
    assert run(spark, source, target, null_keys="drop").figures["null_keys"] == 2
    assert state(target) == STATE


def test_a_table_is_replaced_by_one_snapshot(spark: SparkSession, archive: Archive, tmp_path: Path) -> None:
    target = tmp_path / "tables" / "state"
    reports = []
    for rows in (ROWS, [*ROWS, Row("c", None, 0, 100)]):
        reports.append(run(spark, archive(rows), target, target_format="iceberg"))
    name = table_name(spark, str(target))
    found = {(row.topic, row.key.decode()): row.value.decode() for row in spark.table(name).collect()}
    assert found == {key: value for key, value in STATE.items() if key != ("orders", "c")}
    assert [report.figures["keys"] for report in reports] == [7, 6]
    assert [report.figures["tombstones"] for report in reports] == [1, 2]
    snapshots = spark.table(f"{name}.snapshots").orderBy("committed_at").collect()
    assert [each.summary["total-records"] for each in snapshots] == ["7", "6"]
    with pytest.raises(StateConflict, match="has the state of all topics of the archive"):
        run(spark, archive(ROWS), target, target_format="iceberg", topics=("orders",))
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('{OWNED_BY}')")
    with pytest.raises(StateConflict, match="is no state"):
        run(spark, archive(ROWS), target, target_format="iceberg")


def test_what_cannot_be_compacted_is_named(spark: SparkSession, archive: Archive, tmp_path: Path) -> None:
    source = archive(ROWS)
    with pytest.raises(PipelineError, match="has no records of topic payments"):
        run(spark, source, tmp_path / "state", topics=("orders", "payments"))
    with pytest.raises(PipelineError, match="overlap"):
        run(spark, source, Path(source) / "state")
    with pytest.raises(PipelineError, match="no archive at"):
        run(spark, str(tmp_path / "none"), tmp_path / "state")
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "state.staging").exists()
