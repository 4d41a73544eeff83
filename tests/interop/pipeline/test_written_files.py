"""A test of the content of written files, which is grouped by their sizes, or by their paths if two sizes are equal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from pykbroker.pipeline.jobs import written_files as module
from pykbroker.pipeline.jobs.archived_files import ArchivedFile, OffsetRange
from pykbroker.pipeline.jobs.written_files import written_files
from tests.interop.pipeline.marks import spark_marks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = spark_marks()


@pytest.mark.parametrize(
    ("counts", "more"),
    [((3, 2000), 1), ((3, 3, 2000), 0), ((3, 3, 2000), -1)],
    ids=["sizes differ", "sizes are equal, at the limit of one task", "more than one task"],
)
def test_each_file_has_its_own_content(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: tuple[int, ...], more: int
) -> None:
    sizes, expected = {}, {}
    for number, count in enumerate(counts):
        name = f"topic=a b/date=2026-11-24/part-{number}.parquet"
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = {"partition": [7] * count, "offset": list(range(count))}
        parquet.write_table(pa.table(rows, pa.schema([("partition", pa.int32()), ("offset", pa.int64())])), path)
        sizes[name] = path.stat().st_size
        expected[name] = ArchivedFile(sizes[name], [OffsetRange(7, 0, count - 1, count)])
    assert len(set(sizes.values())) == len(set(counts))
    monkeypatch.setattr(module, "ONE_TASK_BYTES", sum(sizes.values()) + more)
    frame, coalesced = type(spark.range(1)), list[int]()
    coalesce = frame.coalesce

    def noted(rows: DataFrame, number: int) -> DataFrame:
        coalesced.append(number)
        return coalesce(rows, number)

    monkeypatch.setattr(frame, "coalesce", noted)
    assert written_files(spark, [str(tmp_path)], sizes, "") == expected
    assert coalesced == ([1] if more >= 0 else [])
