"""The counts of a decoding: good and bad records are counted apart, and compared with all that were read."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from pykbroker.pipeline.decoding.plan import DecodePlan
from pykbroker.pipeline.jobs import decode
from pykbroker.pipeline.jobs.decode import DecodedFiles, RecordCount
from pykbroker.pipeline.jobs.parquet import ParquetFiles

COUNTS = [RecordCount("t", 0, 5, 0, None), RecordCount("t", 1, 3, 2, (7, "no JSON"))]


@pytest.mark.parametrize(
    ("written", "losses"),
    [
        (6, []),
        (5, ["batch 4: 8 records were read, 5 are good and 2 are bad"]),
        (7, ["batch 4: 8 records were read, 7 are good and 2 are bad"]),
    ],
)
def test_records_that_are_neither_good_nor_bad_are_a_loss(
    monkeypatch: pytest.MonkeyPatch, written: int, losses: list[str]
) -> None:
    frame, letters, target = MagicMock(), MagicMock(), MagicMock()
    monkeypatch.setattr(decode, "decoded", lambda *_: frame)
    monkeypatch.setattr(decode, "good", lambda _: frame)
    monkeypatch.setattr(decode, "record_counts", lambda _: COUNTS)
    monkeypatch.setattr(ParquetFiles, "write", lambda *_: written)
    monkeypatch.setattr("pyspark.sql.functions.col", MagicMock())
    files: Any = DecodedFiles(MagicMock(), target, DecodePlan("json", "{}"), letters, lambda line: None)
    assert files.write(frame, 4, {}, lambda firsts: []) == 8
    assert (files.good, files.bad, files.losses) == (written, 2, losses)
    [[_, sources, _]] = [call.args for call in letters.write.mock_calls]
    assert [str(each) for each in sources] == ["t-1"]
