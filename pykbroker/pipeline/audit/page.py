"""The page of an audit: one HTML file without a script, which needs no network and follows the theme of its reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TypeVar

from pykbroker.core.version import VERSION
from pykbroker.pipeline.audit import plots
from pykbroker.pipeline.audit.findings import AuditFindings, OffsetStrip, PartitionProfile, SideProfile, TopicProfile
from pykbroker.pipeline.audit.plots import Bar
from pykbroker.pipeline.audit.style import STYLE
from pykbroker.pipeline.quantities import counted, duration, moment, share, short, size

T = TypeVar("T")
Profiles = Sequence[tuple[str, TopicProfile]]
BARS_MAX = 24
"""The partitions that a plot shows. The tables have all of them."""
TOPICS_MAX = 50
"""The topics that have plots."""
GOOD = '<svg viewBox="0 0 26 26" aria-hidden="true"><circle class="disc" cx="13" cy="13" r="12"/>'
GOOD += '<path class="sign" d="M7.5 13.5l3.8 3.8 7.4-8"/></svg>'
BAD = '<svg viewBox="0 0 26 26" aria-hidden="true"><circle class="disc" cx="13" cy="13" r="12"/>'
BAD += '<path class="sign" d="M13 6.5v8M13 19v.1"/></svg>'
DEFINITIONS = (
    ("Bytes", "The bytes of keys, values and headers, before compression."),
    ("Offsets without a record", "Offsets between the first and the last record of a partition. Markers of "
     "transactions, aborted records and compaction leave such gaps, so that they are no loss by themselves."),
    ("Missing in the archive", "Records of the topic that the archive lacks, although it has later ones: a loss."),
    ("Not archived yet", "Records of the topic that are later than the last archived one."),
    ("Deleted in the topic", "Archived records that are older than the topic's first one, as retention leaves them."),
    ("Only in the archive", "Archived records that the topic lacks, although it has older ones, as after compaction."),
    ("Steps back", "Records whose timestamp is before that of the record before them in the partition."),
    ("Late by", "The longest time by which a record is older than any record before it in the partition. A watermark "
     "with this delay loses no record."),
    ("Rate", "Records divided by the time between the earliest and the latest timestamp."),
)  # fmt: skip


def audit_page(findings: AuditFindings) -> str:
    """Return the page as HTML."""
    names = findings.topic_names()
    title = f"Audit of {', '.join(names[:3])}{f' and {len(names) - 3} more' * (len(names) > 3)}" if names else "Audit"
    body = [
        f"<h1>{escape(title)}</h1>",
        _facts(findings),
        _verdict(findings),
        _tiles(findings),
        _remarks(findings.remarks),
        _comparison(findings),
        *(_topic(findings, name) for name in names[:TOPICS_MAX]),
        _definitions(),
        f"<footer>pykbroker {escape(VERSION)}, {moment(findings.measured_ms)} UTC. All times are in UTC.</footer>",
    ]
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
    )
    content = "\n".join(filter(None, body))
    return f"{head}<body>\n<main>\n{content}\n</main>\n</body>\n</html>\n"


def _facts(findings: AuditFindings) -> str:
    facts = [f"{side.side}: {side.place}" for side in findings.sides]
    if findings.cluster_id:
        facts.append(f"cluster {findings.cluster_id}")
    facts.append(f"{moment(findings.measured_ms)} UTC")
    return f'<p class="facts">{" ".join(f"<span>{escape(each)}</span>" for each in facts)}</p>'


def _verdict(findings: AuditFindings) -> str:
    if findings.losses:
        items = "".join(f"<li>{escape(each)}</li>" for each in findings.losses)
        head = f"{counted(len(findings.losses), 'partition')} with missing or double records"
        return f'<div class="verdict loss">{BAD}<div><strong>{head}</strong><ul>{items}</ul></div></div>'
    if findings.comparisons:
        both = sum(each.both for each in findings.comparisons)
        head = "The archive is complete"
        text = f"It has all {both:,} records that the topics have up to the last archived offset, each once."
        if not both:
            text = "The topics and the archive have no offset in common."
    else:
        head, text = "No record is double", "Offsets without a record are listed for each partition."
    return f'<div class="verdict">{GOOD}<div><strong>{head}</strong><p>{text}</p></div></div>'


def _tiles(findings: AuditFindings) -> str:
    """Return the sums over all topics, those of the first side large and those of the other small."""
    tiles: list[tuple[str, list[str]]] = [
        ("Records", [f"{_sum(side, 'records'):,}" for side in findings.sides]),
        ("Bytes", [size(_sum(side, "bytes")) for side in findings.sides]),
        ("Partitions with records", [f"{sum(len(t.partitions) for t in side.topics):,}" for side in findings.sides]),
        ("Different keys", [f"{_sum(side, 'keys'):,}" for side in findings.sides]),
        ("From the first to the last", [_span(side) for side in findings.sides]),
    ]
    found = []
    for name, values in tiles:
        more = ""
        if len(values) > 1:
            same = len(set(values)) == 1
            label = "the same in the archive" if same else f"{values[1]} in the archive"
            more = f'<div class="more">{escape(label)}</div>'
        elif findings.sides:
            more = f'<div class="more">in the {findings.sides[0].side}</div>'
        value = escape(values[0]) if values else "-"
        found.append(f'<div class="tile"><div class="name">{name}</div><div class="value">{value}</div>{more}</div>')
    return f'<div class="tiles">{"".join(found)}</div>'


def _sum(side: SideProfile, name: str) -> int:
    return sum(getattr(topic, name) for topic in side.topics)


def _span(side: SideProfile) -> str:
    low = min((topic.low_ms for topic in side.topics if topic.low_ms is not None), default=None)
    high = max((topic.high_ms for topic in side.topics if topic.high_ms is not None), default=None)
    return "-" if low is None or high is None else duration(high - low)


def _remarks(remarks: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(each)}</li>" for each in remarks)
    return f'<ul class="card remarks">{items}</ul>' if items else ""


def _comparison(findings: AuditFindings) -> str:
    if not findings.comparisons:
        return ""
    last = {
        (t.topic, p.partition): p.last_offset
        for s in findings.sides
        if s.side == "archive"
        for t in s.topics
        for p in t.partitions
    }
    shown = largest(findings.strips, lambda strip: sum(map(sum, strip.counts.values())))
    legend = _legend(["topic", "archive"]) + '<span><i class="dot bad"></i>fewer in the archive</span>'
    plot = _card(
        "Offsets that have records", plots.offsets(shown, last), _shown(shown, findings.strips), legend, full=True
    )
    heads = ("partition", "log start", "log end", "in both", "missing in<br>the archive", "not archived<br>yet")
    rows: list[Sequence[str | int]] = [
        (
            f"{each.topic}-{each.partition}",
            f"{each.log_start:,}",
            f"{each.log_end:,}",
            f"{each.both:,}",
            each.missing,
            *(f"{n:,}" if n else "0" for n in (each.not_archived, each.deleted, each.only_archived)),
        )
        for each in findings.comparisons
    ]
    table = _table((*heads, "deleted in<br>the topic", "only in<br>the archive"), rows)
    return f'<h2>Archive against topic</h2>{plot}<div class="card">{table}</div>'


def _topic(findings: AuditFindings, name: str) -> str:
    found = [(side.side, findings.profile(side, name)) for side in findings.sides]
    profiles = [(side, profile) for side, profile in found if profile is not None and profile.records]
    if not profiles:
        return f'<h2>{escape(name)}</h2><p class="soft">This topic has no records.</p>'
    cards = [_rates(profiles), _partitions(profiles), _lateness(profiles[0]), _keys(profiles[0]), _curve(profiles[0])]
    cards += [_sizes(profiles[0]), _nulls(profiles[0])]
    if not findings.comparisons:
        cards.append(_strips([each for each in findings.strips if each.topic == name], profiles[0][0]))
    tables = "".join(
        f'<div class="card"><header><h3>Partitions, {side}</h3><p>{_summary(profile)}</p></header>'
        f"{_partition_table(profile.partitions)}</div>"
        for side, profile in profiles
    )
    return f'<h2>{escape(name)}</h2><div class="grid">{"".join(filter(None, cards))}</div>{tables}'


def _rates(profiles: Profiles) -> str:
    series = [(side, profile.timeline) for side, profile in profiles if profile.timeline]
    if not series:
        return ""
    note = f"records per {duration(series[0][1][0].width_ms)}, by their timestamps"
    return _card("Rate", plots.rates(series), note, _legend([side for side, _ in series]), full=True)


def _partitions(profiles: Profiles) -> str:
    by_side = [{each.partition: each for each in profile.partitions} for _, profile in profiles]
    every = sorted(set().union(*by_side))
    shown = largest(every, lambda index: max(own[index].records if index in own else 0 for own in by_side))
    rows = []
    for index in shown:
        values = [own[index].records if index in own else 0 for own in by_side]
        ends = [share(value, profile.records) for value, (_, profile) in zip(values, profiles, strict=True)]
        rows.append(
            Bar(
                f"partition {index}",
                tuple(values),
                tuple(f"{short(v)} · {e}" for v, e in zip(values, ends, strict=True)),
            )
        )
    mean = profiles[0][1].records / len(profiles[0][1].partitions)
    sides = [side for side, _ in profiles]
    return _card(
        "Records by partition",
        plots.bars("records by partition", rows, sides, mean),
        _shown(shown, every),
        _legend(sides),
    )


def _lateness(side_profile: tuple[str, TopicProfile]) -> str:
    side, profile = side_profile
    shown = largest(profile.partitions, lambda each: each.records)
    rows = [
        Bar(
            f"partition {each.partition}",
            (each.lateness_ms_max,),
            (duration(each.lateness_ms_max) if each.steps_back else "in order",),
            f"partition {each.partition}: up to {duration(each.lateness_ms_max)} late, {each.steps_back:,} steps back",
        )
        for each in shown
    ]
    note = "the longest time by which a record is late"
    return _card("Disorder of timestamps", plots.bars("disorder of timestamps", rows, [side]), note)


def _keys(side_profile: tuple[str, TopicProfile]) -> str:
    side, profile = side_profile
    if not profile.top_keys:
        return ""
    rows = [
        Bar(
            each.key or "(empty)", (each.records,), (f"{short(each.records)} · {share(each.records, profile.records)}",)
        )
        for each in profile.top_keys
    ]
    note = f"of {profile.keys:,} keys, with their shares of the records"
    return _card("Most frequent keys", plots.bars("most frequent keys", rows, [side]), note)


def _curve(side_profile: tuple[str, TopicProfile]) -> str:
    side, profile = side_profile
    if not profile.key_curve:
        return ""
    keyed = profile.key_curve[-1].records
    note = f"1 % of the keys have {share(profile.top_percent_records, keyed)} of the records with a key"
    return _card("Skew of keys", plots.key_curve(profile.key_curve, side), note)


def _nulls(side_profile: tuple[str, TopicProfile]) -> str:
    _, profile = side_profile
    shown = largest(profile.partitions, lambda each: each.records)
    rows = [
        Bar(
            f"partition {each.partition}",
            (each.null_keys / each.records, each.null_values / each.records),
            (share(each.null_keys, each.records), share(each.null_values, each.records)),
            f"partition {each.partition}: {each.null_keys:,} without a key, {each.null_values:,} without a value",
        )
        for each in shown
    ]
    legend = '<span><i class="dot key"></i>no key</span><span><i class="dot value"></i>no value</span>'
    plot = plots.bars("shares of records without a key or a value", rows, ("key", "value"))
    return _card("Records without a key or a value", plot, _shown(shown, profile.partitions), legend)


def _sizes(side_profile: tuple[str, TopicProfile]) -> str:
    side, profile = side_profile
    if not profile.value_sizes:
        return ""
    largest_ = max(each.value_bytes_max for each in profile.partitions)
    mean = sum(each.value_bytes for each in profile.partitions) / sum(each.records for each in profile.value_sizes)
    note = f"mean {size(mean)}, largest {size(largest_)}"
    return _card("Sizes of values", plots.value_sizes(profile.value_sizes, side), note)


def _strips(strips: Sequence[OffsetStrip], side: str) -> str:
    shown = largest(strips, lambda strip: sum(map(sum, strip.counts.values())))
    return _card("Offsets that have records", plots.offsets(shown, {}), _shown(shown, strips), full=True)


def _summary(profile: TopicProfile) -> str:
    rate = "" if profile.records_per_s is None else f", {short(profile.records_per_s)} records/s in the mean"
    times = ""
    if profile.low_ms is not None and profile.high_ms is not None:
        times = f", from {moment(profile.low_ms)} to {moment(profile.high_ms)}"
    return f"{counted(profile.records, 'record')}, {size(profile.bytes)}{times}{rate}"


def _partition_table(partitions: Sequence[PartitionProfile]) -> str:
    heads = ("partition", "records", "bytes", "records/s", "first<br>offset", "last<br>offset", "offsets<br>without")
    more = ("gaps", "double", "no key", "no value", "steps<br>back", "late by")
    rows = []
    for each in partitions:
        ms = 0 if each.low_ms is None or each.high_ms is None else each.high_ms - each.low_ms
        rows.append(
            (
                str(each.partition),
                f"{each.records:,}",
                size(each.bytes),
                short(each.records * 1000 / ms) if ms else "-",
                f"{each.first_offset:,}",
                f"{each.last_offset:,}",
                f"{each.missing_offsets:,}",
                f"{each.gaps:,}",
                each.duplicates,
                share(each.null_keys, each.records),
                share(each.null_values, each.records),
                f"{each.steps_back:,}",
                duration(each.lateness_ms_max) if each.lateness_ms_max else "0",
            )
        )
    return _table((*heads, *more), rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str | int]]) -> str:
    """Return a table. A cell that is a number marks a loss unless it is 0."""
    head = "".join(f"<th>{each}</th>" for each in heads)
    body = "".join(f"<tr><td>{escape(str(row[0]))}</td>{''.join(map(_cell, row[1:]))}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: str | int) -> str:
    if isinstance(value, int) and value:
        return f'<td class="bad">{value:,}</td>'
    is_nothing = str(value) in ("0", "0 %", "-")
    classes = ' class="none"' if is_nothing else ""
    return f"<td{classes}>{escape(str(value))}</td>"


def _card(title: str, plot: str, note: str = "", legend: str = "", *, full: bool = False) -> str:
    words = f"<p>{escape(note)}</p>" if note else ""
    key = f'<div class="legend">{legend}</div>' if legend else ""
    head = f"<header><h3>{escape(title)}</h3>{words}{key}</header>"
    classes = "card full" if full else "card"
    return f'<section class="{classes}">{head}<div class="scroll">{plot}</div></section>'


def _legend(sides: Sequence[str]) -> str:
    if len(sides) < 2:
        return ""
    return "".join(f'<span><i class="dot {side}"></i>{side}</span>' for side in sides)


def largest(each: Iterable[T], size_of: Callable[[T], int]) -> list[T]:
    """Return the items that a plot shows, in their order."""
    ordered = list(each)
    kept = sorted(range(len(ordered)), key=lambda index: -size_of(ordered[index]))[:BARS_MAX]
    return [ordered[index] for index in sorted(kept)]


def _shown(shown: Sequence[object], every: Sequence[object]) -> str:
    return "" if len(shown) == len(every) else f"the {len(shown)} largest of {len(every):,} partitions"


def _definitions() -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in DEFINITIONS)
    return f'<h2>What the numbers mean</h2><div class="card"><dl>{items}</dl></div>'
