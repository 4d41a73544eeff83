"""The sentences of an audit, its table for a terminal, and its numbers as text."""

from __future__ import annotations

import msgspec
import pytest

from pykbroker.pipeline.audit.axes import time_ticks
from pykbroker.pipeline.audit.findings import PartitionComparison
from pykbroker.pipeline.audit.remarks import losses, remarks
from pykbroker.pipeline.audit.text import audit_lines, figures
from pykbroker.pipeline.quantities import duration, moment, share, short, size
from tests.unit.pipeline.audit.samples import findings, partition, side, topic


def test_losses_are_missing_and_double_records() -> None:
    lacking = PartitionComparison("orders", 2, 0, 90, missing=3, first_missing=41)
    archive = side("archive", topic("orders", partition(0, 5), partition(1, 6, duplicates=1)))
    assert losses([archive], [lacking, PartitionComparison("orders", 3, 0, 9, both=9)]) == [
        "orders-2: 3 records of the topic missing in the archive, from offset 41 on",
        "orders-1: 1 record of the archive double",
    ]


def test_a_topic_without_oddities_has_no_remarks() -> None:
    plain = msgspec.structs.replace(topic("t", partition(0, 100), partition(1, 90)), top_keys=[])
    assert remarks([side("topic", plain)], [PartitionComparison("t", 0, 0, 100, both=100)]) == []


def test_oddities_are_named_once_for_both_sides() -> None:
    odd = topic(
        "t",
        partition(0, 900, gaps=2, missing_offsets=30, null_keys=50, steps_back=4, lateness_ms_max=61_000),
        partition(1, 50, null_values=40),
        partition(2, 50),
    )
    compared = [PartitionComparison("t", 0, 0, 900, not_archived=7, deleted=1, only_archived=2)]
    found = remarks([side("topic", odd), side("archive", odd)], compared)
    assert [each.split(". ")[0] for each in found] == [
        "t: 7 records not archived yet.",
        "t: 1 record in the archive alone, because the topic has deleted them.",
        "t: 2 records in the archive alone, although the topic has older ones",
        "t-0 has 90 % of the records, 2.7 times the mean of its topic.",
        "t: 30 offsets without a record, in 2 gaps",
        "t: the key 'hot' has 50 % of the records.",
        "t: 5.0 % of the records have no key.",
        "t: 4.0 % of the records have no value (tombstones).",
        "t: timestamps go back 4 times",
    ]
    assert found[-1].endswith("a delay of 1 min 1 s.")


def test_the_text_has_a_line_for_each_partition() -> None:
    sides = [side(kind, topic("t", partition(0, 1200), partition(1, 3))) for kind in ("topic", "archive")]
    lines = audit_lines(findings(*sides, remarks=["t is odd."]))
    assert lines[0] == "  topic t: 1,203 records, 11.7 KiB, 1 records/s, 1,202 keys"
    assert lines[2].split("  ")[2:] == ["0", *[""] * 2, *lines[2].split("  ")[5:]]
    assert lines[2].split() == ["0", "1,200", "11.7", "KiB", "0..1,199", "0", "0", "0", "%", "0", "%", "0", "ms"]
    assert lines[-2].split() == ["t-1", "3", "0", "0", "0", "0"]
    assert lines[-1] == "  t is odd."


def test_the_figures_have_the_sums_of_each_topic() -> None:
    found = figures(findings(side("archive", topic("t", partition(0, 11), partition(1, 3))), losses=["x"]))
    assert "losses" not in found
    (plain,) = found["sides"][0]["topics"]
    assert (plain["records"], plain["bytes"], plain["records_per_s"]) == (14, 140, 1.4)
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (size(0), "0 B"),
        (size(1023), "1023 B"),
        (size(1536), "1.5 KiB"),
        (size(300 * 2**30), "300 GiB"),
        (short(0), "0"),
        (short(999), "999"),
        (short(1_234_567), "1.23 M"),
        (share(0, 0), "-"),
        (share(0, 7), "0 %"),
        (share(7, 7), "100 %"),
        (share(1, 10_000), "< 0.1 %"),
        (share(9_999, 10_000), "> 99.9 %"),
        (share(1, 30), "3.3 %"),
        (duration(0), "0 ms"),
        (duration(61_001), "1 min 1 s"),
        (duration(3_600_000), "1 h"),
        (duration(90_061_000), "1 d 1 h"),
        (moment(0), "1970-01-01 00:00:00"),
        (moment(2**62), f"{2**62} ms"),
    ],
)
def test_a_number_is_shown_as_text(found: str, text: str) -> None:
    assert found == text


@pytest.mark.parametrize("span_ms", [0, 3, 999, 61_000, 5_000_000, 90_000_000, 40 * 86_400_000, 10**12, 10**16])
def test_time_ticks_are_few_round_times(span_ms: int) -> None:
    start = 1_764_001_234_567
    ticks = time_ticks(start, start + span_ms)
    assert len(ticks) <= 9
    assert all(start <= ms <= start + span_ms for ms, _ in ticks)
    assert len({label for _, label in ticks}) == len(ticks)


def test_the_first_time_of_a_day_has_its_date() -> None:
    labels = [label for _, label in time_ticks(1_763_935_200_000, 1_763_935_200_000 + 12 * 3_600_000)]
    assert labels == ["23 Nov 22:00", "24 Nov 00:00", "02:00", "04:00", "06:00", "08:00", "10:00"]
