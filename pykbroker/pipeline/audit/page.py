"""The page of an audit: one HTML file without a script, which needs no network and follows the theme of its reader.

This file says what the cards of the page show. Its markup is in `templates`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined

from pykbroker.core.version import VERSION
from pykbroker.pipeline.audit import plots
from pykbroker.pipeline.audit.findings import (
    AuditFindings,
    OffsetStrip,
    PartitionComparison,
    PartitionProfile,
    Side,
    SideProfile,
    TopicProfile,
)
from pykbroker.pipeline.quantities import counted, duration, moment, share, short, size

T = TypeVar("T")
Profiles = Sequence[tuple[Side, TopicProfile]]
Cells = tuple[str | int, ...]
"""A row of a table. A cell that is a number marks a loss unless it is 0."""
BARS_MAX = 24
"""The partitions that a plot shows. The tables have all of them."""
TOPICS_MAX = 50
"""The topics that have plots."""
SERIES_NAMES = {
    "topic": "topic",
    "archive": "archive",
    "key": "no key",
    "value": "no value",
    "bad": "fewer in the archive",
}


class Bar(NamedTuple):
    """A bar of a series, with the text behind its end."""

    series: str
    value: float
    end: str


class BarRow(NamedTuple):
    """The bars of one thing, such as a partition. The tip is shown when the pointer rests on them."""

    label: str
    tip: str
    bars: list[Bar]


class Run(NamedTuple):
    """Neighbouring slots of offsets with equal counts. The opacity is the share of the offsets that have a record."""

    series: str
    slots: int
    opacity: float
    tip: str


class Strip(NamedTuple):
    """The offsets of a partition: a list of runs for each side."""

    name: str
    first: str
    last: str
    sides: list[list[Run]]


class Card(NamedTuple):
    """A card of the page, with bars, strips of offsets, or a drawing. `series` are those of its legend."""

    title: str
    note: str = ""
    series: Sequence[str] = ()
    is_full: bool = False
    bars: Sequence[BarRow] = ()
    mean: float = 0
    strips: Sequence[Strip] = ()
    drawing: plots.Drawing | None = None

    @property
    def highest(self) -> float:
        """Return the value of the longest bar, or 1 if that is 0."""
        return max(bar.value for row in self.bars for bar in row.bars) or 1


def audit_page(findings: AuditFindings) -> str:
    """Return the page as HTML. Jinja escapes each text that it inserts."""
    names = findings.topic_names()
    title = f"Audit of {', '.join(names[:3])}{f' and {len(names) - 3} more' * (len(names) > 3)}" if names else "Audit"
    loader = PackageLoader("pykbroker.pipeline.audit")
    jinja = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    jinja.filters["decimal"] = "{:.4f}".format
    jinja.globals["series_names"] = SERIES_NAMES
    return jinja.get_template("page.html").render(
        title=title,
        facts=_facts(findings),
        findings=findings,
        verdict=_verdict(findings),
        tiles=list(_tiles(findings.sides)),
        compared=_strips("topic archive bad".split(), findings.strips, _archive_lasts(findings)),
        comparison=list(map(_comparison_row, findings.comparisons)),
        topics=[(name, *_topic(findings, name)) for name in names[:TOPICS_MAX]],
        measured=moment(findings.measured_ms),
        version=VERSION,
    )


def _facts(findings: AuditFindings) -> list[str]:
    cluster = [f"cluster {findings.cluster_id}"] if findings.cluster_id else []
    return [*(f"{side.side}: {side.place}" for side in findings.sides), *cluster, f"{moment(findings.measured_ms)} UTC"]


def _verdict(findings: AuditFindings) -> tuple[str, str]:
    if findings.losses:
        return f"{counted(len(findings.losses), 'partition')} with missing or double records", ""
    if not findings.comparisons:
        return "No record is double", "Offsets without a record are listed for each partition."
    both = sum(each.both for each in findings.comparisons)
    text = f"It has all {both:,} records that the topics have up to the last archived offset, each once."
    return "The archive is complete", text if both else "The topics and the archive have no offset in common."


def _tiles(sides: Sequence[SideProfile]) -> Iterator[tuple[str, str, str]]:
    """Yield the sums over all topics: a name, that of the first side, and that of the other one in words."""
    figures: list[tuple[str, Callable[[SideProfile], str]]] = [
        ("Records", lambda side: f"{sum(topic.records for topic in side.topics):,}"),
        ("Bytes", lambda side: size(sum(topic.bytes for topic in side.topics))),
        ("Partitions with records", lambda side: f"{sum(len(topic.partitions) for topic in side.topics):,}"),
        ("Different keys", lambda side: f"{sum(topic.keys for topic in side.topics):,}"),
        ("From the first to the last", _span),
    ]
    for name, figure in figures:
        values = [figure(side) for side in sides]
        if len(values) < 2:
            yield name, "".join(values) or "-", f"in the {sides[0].side}" if sides else ""
        else:
            yield name, values[0], f"{'the same' if values[0] == values[1] else values[1]} in the archive"


def _span(side: SideProfile) -> str:
    lows = [topic.low_ms for topic in side.topics if topic.low_ms is not None]
    highs = [topic.high_ms for topic in side.topics if topic.high_ms is not None]
    return duration(max(highs) - min(lows)) if lows and highs else "-"


def _topic(findings: AuditFindings, name: str) -> tuple[list[Card], list[tuple[Side, str, list[Cells]]]]:
    """Return the cards of a topic, and the partitions of each side as table with its name and a summary."""
    found = [(side.side, findings.profile(side, name)) for side in findings.sides]
    profiles = [(side, profile) for side, profile in found if profile is not None and profile.records]
    if not profiles:
        return [], []
    (side, first), sides = profiles[0], [side for side, _ in profiles]
    cards = [_partitions(profiles, sides), _lateness(side, first), _nulls(first)]
    if series := [(side, profile.timeline) for side, profile in profiles if profile.timeline]:
        note = f"records per {duration(series[0][1][0].width_ms)}, by their timestamps"
        cards.insert(0, Card("Rate", note, [side for side, _ in series], is_full=True, drawing=plots.rates(series)))
    if first.top_keys:
        cards.append(_keys(side, first))
    if first.key_curve:
        had = share(first.top_percent_records, first.key_curve[-1].records)
        note = f"1 % of {first.keys:,} keys have {had} of the records with a key; dashed: all equally frequent"
        cards.append(Card("Skew of keys", note, drawing=plots.key_curve(first.key_curve, side)))
    if first.value_sizes:
        largest_bytes = max(each.value_bytes_max for each in first.partitions)
        mean = sum(each.value_bytes for each in first.partitions) / sum(each.records for each in first.value_sizes)
        note = f"mean {size(mean)}, largest {size(largest_bytes)}"
        cards.append(Card("Sizes of values", note, drawing=plots.value_sizes(first.value_sizes, side)))
    if not findings.comparisons:
        cards.append(_strips((), [each for each in findings.strips if each.topic == name], {}))
    tables = [(side, _summary(profile), list(map(_partition_row, profile.partitions))) for side, profile in profiles]
    return cards, tables


def _partitions(profiles: Profiles, sides: Sequence[str]) -> Card:
    records = [{each.partition: each.records for each in profile.partitions} for _, profile in profiles]
    every = sorted(set().union(*records))
    shown, note = largest(every, lambda index: max(own.get(index, 0) for own in records))
    rows = []
    for index in shown:
        bars = []
        for own, (side, profile) in zip(records, profiles, strict=True):
            number = own.get(index, 0)
            bars.append(Bar(side, number, f"{short(number)} · {share(number, profile.records)}"))
        rows.append(BarRow(f"partition {index}", "; ".join(f"{bar.series} {bar.value:,}" for bar in bars), bars))
    mean = profiles[0][1].records / len(profiles[0][1].partitions)
    dashed = f"dashed: mean {short(mean)}"
    return Card("Records by partition", f"{note}{note and ', '}{dashed}", sides, bars=rows, mean=mean)


def _lateness(side: str, profile: TopicProfile) -> Card:
    shown, _ = largest(profile.partitions, lambda each: each.records)
    rows = []
    for each in shown:
        late = duration(each.lateness_ms_max)
        bar = Bar(side, each.lateness_ms_max, late if each.steps_back else "in order")
        rows.append(BarRow(f"partition {each.partition}", f"up to {late} late, {each.steps_back:,} steps back", [bar]))
    return Card("Disorder of timestamps", "the longest time by which a record is late", bars=rows)


def _keys(side: str, profile: TopicProfile) -> Card:
    rows = []
    for each in profile.top_keys:
        bar = Bar(side, each.records, f"{short(each.records)} · {share(each.records, profile.records)}")
        rows.append(BarRow(each.key or "(empty)", counted(each.records, "record"), [bar]))
    return Card("Most frequent keys", f"of {profile.keys:,} keys, with their shares of the records", bars=rows)


def _nulls(profile: TopicProfile) -> Card:
    shown, note = largest(profile.partitions, lambda each: each.records)
    rows = []
    for each in shown:
        counts = {"key": each.null_keys, "value": each.null_values}
        bars = [Bar(name, count / each.records, share(count, each.records)) for name, count in counts.items()]
        tip = f"{each.null_keys:,} without a key, {each.null_values:,} without a value"
        rows.append(BarRow(f"partition {each.partition}", tip, bars))
    return Card("Records without a key or a value", note, ("key", "value"), bars=rows)


def _strips(series: Sequence[str], strips: Sequence[OffsetStrip], archive_lasts: dict[tuple[str, int], int]) -> Card:
    shown, note = largest(strips, lambda strip: sum(map(sum, strip.counts.values())))
    drawn = [_strip(each, archive_lasts.get((each.topic, each.partition), -1)) for each in shown]
    return Card("Offsets that have records", note, series, is_full=True, strips=drawn)


def _strip(strip: OffsetStrip, archive_last: int) -> Strip:
    """Return the runs of a strip. Slots that the archive lacks up to its last offset are marked."""
    used = max(i for counts in strip.counts.values() for i, count in enumerate(counts) if count) + 1
    end = strip.start + used * strip.width - 1
    sides = []
    for side in (each for each in SERIES_NAMES if each in strip.counts):
        slots = []
        for i, count in enumerate(strip.counts[side][:used]):
            slot_end = strip.start + (i + 1) * strip.width  # the last archived offset may have later ones in its slot
            is_behind = side == "topic" or slot_end - 1 > archive_last or "topic" not in strip.counts
            slots.append((count, 0 if is_behind else max(0, strip.counts["topic"][i] - count)))
        runs, first = [], strip.start
        for (count, lacking), same in groupby(slots):
            length = len(list(same))
            series, opacity = ("bad", 1.0) if lacking else (side, 0.25 + 0.75 * min(1, count / strip.width))
            tip = f"offsets from {first:,}: {side} has {counted(length * count, 'record')}"
            tip += f", {length * lacking:,} fewer than the topic" if lacking else ""
            runs.append(Run(series if count or lacking else "", length, opacity, tip))
            first += length * strip.width
        sides.append(runs)
    return Strip(f"{strip.topic}-{strip.partition}", f"{strip.start:,}", f"{end:,}", sides)


def _archive_lasts(findings: AuditFindings) -> dict[tuple[str, int], int]:
    archive = [topic for side in findings.sides if side.side == "archive" for topic in side.topics]
    return {(topic.topic, each.partition): each.last_offset for topic in archive for each in topic.partitions}


def _comparison_row(each: PartitionComparison) -> Cells:
    behind = (each.not_archived, each.deleted, each.only_archived)
    numbers = (f"{number:,}" for number in (each.log_start, each.log_end, each.both))
    return (f"{each.topic}-{each.partition}", *numbers, each.missing, *(f"{number:,}" for number in behind))


def _partition_row(each: PartitionProfile) -> Cells:
    ms = 0 if each.low_ms is None or each.high_ms is None else each.high_ms - each.low_ms
    return (
        str(each.partition),
        f"{each.records:,}",
        size(each.bytes),
        short(each.records * 1000 / ms) if ms else "-",
        *(f"{number:,}" for number in (each.first_offset, each.last_offset, each.missing_offsets, each.gaps)),
        each.duplicates,
        share(each.null_keys, each.records),
        share(each.null_values, each.records),
        f"{each.steps_back:,}",
        duration(each.lateness_ms_max) if each.lateness_ms_max else "0",
    )


def _summary(profile: TopicProfile) -> str:
    rate = "" if profile.records_per_s is None else f", {short(profile.records_per_s)} records/s in the mean"
    times = ""
    if profile.low_ms is not None and profile.high_ms is not None:
        times = f", from {moment(profile.low_ms)} to {moment(profile.high_ms)}"
    return f"{counted(profile.records, 'record')}, {size(profile.bytes)}{times}{rate}"


def largest(each: Iterable[T], size_of: Callable[[T], int]) -> tuple[list[T], str]:
    """Return the partitions that a plot shows, in their order, and a note if these are not all."""
    ordered = list(each)
    kept = sorted(range(len(ordered)), key=lambda index: -size_of(ordered[index]))[:BARS_MAX]
    note = "" if len(kept) == len(ordered) else f"the {len(kept)} largest of {len(ordered):,} partitions"
    return [ordered[index] for index in sorted(kept)], note
