"""The bounds of a replay, as texts of a command line and as conditions in SQL."""

from __future__ import annotations

import pytest

from pykbroker.pipeline.bounds import RecordBound, condition, parse_bound
from pykbroker.pipeline.errors import PipelineError


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("", "true", "true"),
        ("0", "offset >= 0", "offset < 0"),
        ("1970-01-01T00:00:01Z", "timestamp_ms >= 1000", "timestamp_ms < 1000"),
        ("1970-01-01T01:00:01.5+01:00", "timestamp_ms >= 1500", "timestamp_ms < 1500"),
        ("1970-01-02", "timestamp_ms >= 86400000", "timestamp_ms < 86400000"),
        ("1969-12-31T23:59:59.998500Z", "timestamp_ms >= -2", "timestamp_ms < -2"),
        ("9999-12-31T23:59:59.999Z", "timestamp_ms >= 253402300799999", "timestamp_ms < 253402300799999"),
        (
            '{"a":{"0":5},"b":{"1":7}}',
            "(topic != 'a' or partition != 0 or offset >= 5) and (topic != 'b' or partition != 1 or offset >= 7)",
            "(topic != 'a' or partition != 0 or offset < 5) and (topic != 'b' or partition != 1 or offset < 7)",
        ),
    ],
)
def test_a_bound_is_a_condition(text: str, start: str, end: str) -> None:
    bound = parse_bound(text)
    assert condition(bound, is_end=False) == start
    assert condition(bound, is_end=True) == end


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert (
        parse_bound("2026-11-24T08:00:00") == parse_bound("2026-11-24T08:00:00Z") == RecordBound(time_ms=1795507200000)
    )


@pytest.mark.parametrize(
    "text", ["-1", "1.5", "yesterday", '{"a":{"0":"x"}}', '{"a":1}', '{"a', '{"a":{"x":1}}', '{"a\'b":{"0":5}}']
)
def test_another_text_is_refused_with_examples(text: str) -> None:
    with pytest.raises(PipelineError, match=r"is no bound: pass an offset such as 1000, a time such as"):
        parse_bound(text)
