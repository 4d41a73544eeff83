"""The pace of a task with a rate."""

from __future__ import annotations

from pykbroker.pipeline.writing.pace import WritePace


def test_without_a_rate_all_rows_are_written_at_once() -> None:
    assert WritePace().portion(10_000) == 10_000
    assert WritePace().wait_s(10_000, 0) == 0


def test_a_rate_is_kept_in_portions_of_a_quarter_of_a_second() -> None:
    pace = WritePace(1000.0)
    assert (pace.portion(10_000), pace.portion(20)) == (250, 20)
    assert pace.wait_s(250, 0.05) == 0.2
    assert pace.wait_s(250, 3) == 0


def test_a_rate_below_a_record_a_portion_writes_single_records() -> None:
    pace = WritePace(0.5)
    assert pace.portion(100) == 1
    assert pace.wait_s(1, 0.5) == 1.5
