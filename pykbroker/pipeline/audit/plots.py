"""The plots of an audit, each as a drawing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pykbroker.pipeline.audit.axes import time_ticks, value_ticks
from pykbroker.pipeline.audit.findings import KeyShare, OffsetStrip, SizeCount, TimeSlot
from pykbroker.pipeline.audit.svg import bar_path, column_path, drawing, line, number, path, rect, text
from pykbroker.pipeline.quantities import counted, duration, moment, share, short, size

WIDE, HALF = 1040, 500
LABEL_LETTERS_MAX = 28
ROW_PX, BAR_PX, PAIR_BAR_PX = 26, 14, 12
LETTER_PX = 7.2
"""The mean width of a letter of a label."""


class Bar(NamedTuple):
    """A bar with its label, and the value of each series. The texts at the ends of the bars may say more."""

    label: str
    values: tuple[float, ...]
    ends: tuple[str, ...]
    tip: str = ""


def rates(series: Sequence[tuple[str, Sequence[TimeSlot]]]) -> str:
    """Return the records of each series over time. The first series is an area, and further ones are lines."""
    width, height, left, right, top, bottom = WIDE, 230, 56, 12, 12, 28
    slots = [slot for _, each in series for slot in each]
    start = min(slot.start_ms for slot in slots)
    slot_ms = slots[0].width_ms
    count = (max(slot.start_ms for slot in slots) - start) // slot_ms + 1
    ticks = value_ticks(max(slot.records for slot in slots))
    scale_x, scale_y = (width - left - right) / count, (height - top - bottom) / ticks[-1]
    base = height - bottom
    parts = []
    for tick in ticks:
        parts += [line(left, base - tick * scale_y, width - right, base - tick * scale_y)]
        parts += [text(left - 8, base - tick * scale_y + 4, short(tick), "tick", "end")]
    for ms, label in time_ticks(start, start + count * slot_ms):
        x = left + (ms - start) / slot_ms * scale_x
        parts += [line(x, base, x, base + 4, "axis")]
        parts += [text(min(max(x, left), width - 40), base + 18, label, "tick", "middle" if x > left + 20 else "start")]
    for index, (side, each) in enumerate(series):
        heights = {(slot.start_ms - start) // slot_ms: slot.records * scale_y for slot in each}
        steps = "".join(f"V{number(base - heights.get(i, 0))}h{number(scale_x)}" for i in range(count))
        if not index:
            parts.append(path(f"M{left} {base}{steps}V{base}z", f"area {side}"))
        parts.append(path(f"M{left} {base}{steps}V{base}", f"edge {side}{' dashed' * bool(index)}"))
    parts += _time_tips(series, start, slot_ms, count, left, top, scale_x, base - top)
    parts.append(line(left, base, width - right, base, "axis"))
    return drawing(width, height, f"records per {duration(slot_ms)} over time", parts, "plot wide")


def _time_tips(
    series: Sequence[tuple[str, Sequence[TimeSlot]]],
    start: int,
    slot_ms: int,
    count: int,
    left: float,
    top: float,
    scale_x: float,
    height: float,
) -> list[str]:
    """Return a transparent column for each slot of time, with the numbers of all series."""
    by_slot = [(side, {(slot.start_ms - start) // slot_ms: slot for slot in each}) for side, each in series]
    found = []
    for i in range(count):
        here = [(side, slots[i]) for side, slots in by_slot if i in slots]
        numbers = "; ".join(f"{side} {counted(s.records, 'record')}, {size(s.bytes)}" for side, s in here)
        tip = f"from {moment(start + i * slot_ms)}: {numbers or 'no records'}"
        found.append(rect(left + i * scale_x, top, scale_x, height, "hover", tip))
    return found


def bars(title: str, rows: Sequence[Bar], series: Sequence[str], mean: float | None = None) -> str:
    """Return horizontal bars, one for each series in each row, with an optional line at a mean value."""
    thick, pitch = (BAR_PX, ROW_PX) if len(series) == 1 else (PAIR_BAR_PX, len(series) * (PAIR_BAR_PX + 3) + 10)
    left, top, right = label_width(row.label for row in rows), 20 if mean else 2, 104
    height = top + len(rows) * pitch + 4
    highest = max((value for row in rows for value in row.values), default=0) or 1
    scale = (HALF - left - right) / highest
    parts = []
    if mean:
        x = left + mean * scale
        parts += [line(x, top - 2, x, height - 4, "mean"), text(x, top - 7, f"mean {short(mean)}", "tick", "middle")]
    for index, row in enumerate(rows):
        middle = top + (index + 0.5) * pitch
        parts.append(text(left - 10, middle + 4, shortened(row.label), "label", "end"))
        first = middle - (len(series) * (thick + 3) - 3) / 2
        for place, (name, value, end) in enumerate(zip(series, row.values, row.ends, strict=True)):
            y = first + place * (thick + 3)
            if value:
                shape = bar_path(left, y, max(value * scale, 1.5), thick)
                parts.append(path(shape, f"bar {name}", row.tip or f"{row.label}: {end}"))
            parts.append(text(left + value * scale + 6, y + thick / 2 + 4, end, "end"))
    parts.append(line(left, top, left, height - 4, "axis"))
    return drawing(HALF, height, title, parts)


def label_width(labels: Iterable[str]) -> float:
    """Return the space that labels need, in units of the drawing."""
    return 14 + LETTER_PX * max((len(shortened(each)) for each in labels), default=0)


def key_curve(curve: Sequence[KeyShare], side: str) -> str:
    """Return the share of the records by the share of the keys, the most frequent keys first."""
    left, top, plot, height = 60, 10, 216, 268
    width = HALF - left - 24
    keys, records = curve[-1].keys, curve[-1].records
    base = top + plot

    def place(point: KeyShare) -> str:
        return f"{number(left + width * point.keys / keys)} {number(base - plot * point.records / records)}"

    parts = []
    for percent in (0, 25, 50, 75, 100):
        x, y = left + width * percent / 100, base - plot * percent / 100
        parts += [line(left, y, left + width, y), text(left - 8, y + 4, f"{percent} %", "tick", "end")]
        anchor = "end" if percent == 100 else "middle"
        parts += [line(x, base, x, base + 4, "axis"), text(x, base + 17, f"{percent} %", "tick", anchor)]
    points = "L".join(map(place, curve))
    parts.append(line(left, base, left + width, top, "even"))
    parts.append(path(f"M{points}L{left + width} {base}z", f"area {side}"))
    parts.append(path(f"M{points}", f"edge {side}", "the share of the records that the most frequent keys have"))
    parts.append(text(left + width / 2, height - 4, f"share of {keys:,} keys, most frequent first", "tick", "middle"))
    parts.append(text(left + width - 8, base - 10, "dashed: all keys equally frequent", "tick", "end"))
    parts.append(line(left, base, left + width, base, "axis"))
    return drawing(HALF, height, "share of the records by share of the keys", parts)


def value_sizes(sizes: Sequence[SizeCount], side: str) -> str:
    """Return the number of values by size, in columns that double in size."""
    left, right, top, bottom, height = 60, 24, 14, 40, 268
    powers = range(_power(sizes[0].bytes_min), _power(sizes[-1].bytes_min) + 1)
    count = len(powers)
    by_power = {_power(each.bytes_min): each.records for each in sizes}
    ticks = value_ticks(max(by_power.values()))
    base, in_all = height - bottom, sum(by_power.values())
    scale_y, slot = (base - top) / ticks[-1], (HALF - left - right) / count
    column = min(slot - 2, 44)
    parts = []
    for tick in ticks:
        y = base - tick * scale_y
        parts += [line(left, y, HALF - right, y), text(left - 8, y + 4, short(tick), "tick", "end")]
    every = -(-count // 8)
    for index, power in enumerate(powers):
        x, records = left + index * slot + slot / 2, by_power.get(power, 0)
        low, high = 2**power if power else 0, 2 ** (power + 1) - 1
        tip = f"{size(low)} to {size(high)}: {counted(records, 'value')}, {share(records, in_all)}"
        if records:
            tall = max(records * scale_y, 1.5)
            parts.append(path(column_path(x - column / 2, base - tall, column, tall), f"bar {side}", tip))
        if index % every == 0:
            parts.append(text(x, base + 17, size(low), "tick", "middle"))
    parts.append(
        text(left + (HALF - left - right) / 2, height - 4, "from this size up to the next one", "tick", "middle")
    )
    parts.append(line(left, base, HALF - right, base, "axis"))
    return drawing(HALF, height, "number of values by size", parts)


def offsets(strips: Sequence[OffsetStrip], archive_last: dict[tuple[str, int], int]) -> str:
    """Return a strip of offsets for each partition and side. Slots that the archive lacks are marked.

    The opacity of a slot is the share of its offsets that have a record.
    """
    left, right, thick = label_width(f"{strip.topic}-{strip.partition}" for strip in strips), 12, 9
    heights = [len(strip.counts) * (thick + 2) + 24 for strip in strips]
    parts, y = [], 4.0
    for strip, height in zip(strips, heights, strict=True):
        name = f"{strip.topic}-{strip.partition}"
        slots = len(next(iter(strip.counts.values())))
        used = max(i for counts in strip.counts.values() for i, count in enumerate(counts) if count) + 1
        scale = (WIDE - left - right) / used
        parts.append(text(left - 12, y + (height - 24) / 2 + 4, shortened(name), "label", "end"))
        for row, side in enumerate(each for each in ("topic", "archive") if each in strip.counts):
            top = y + row * (thick + 2)
            parts.append(rect(left, top, WIDE - left - right, thick, "track", radius=2))
            for i in range(min(used, slots)):
                parts += _slot(strip, side, i, left + i * scale, top, scale, thick, archive_last)
        last = strip.start + used * strip.width - 1
        parts.append(text(left, y + height - 12, f"{strip.start:,}", "tick"))
        parts.append(text(WIDE - right, y + height - 12, f"{last:,}", "tick", "end"))
        y += height
    return drawing(WIDE, y, "offsets that have records", parts, "plot wide")


def _slot(
    strip: OffsetStrip,
    side: str,
    index: int,
    x: float,
    y: float,
    width: float,
    height: float,
    archive_last: dict[tuple[str, int], int],
) -> list[str]:
    """Return the mark of one slot of a strip, if it has one."""
    counts = strip.counts
    count = counts["topic" if side == "topic" else "archive"][index]
    first = strip.start + index * strip.width
    tip = f"offsets from {first:,}: {side} has {counted(count, 'record')}"
    found = []
    if count:
        found.append(
            rect(x, y, width + 0.3, height, f"bar {side}", tip, opacity=0.25 + 0.75 * min(1, count / strip.width))
        )
    last = archive_last.get((strip.topic, strip.partition), -1)
    if side == "archive" and "topic" in counts and first <= last and counts["topic"][index] > count:
        lacking = counts["topic"][index] - count
        if first + strip.width - 1 <= last:  # the slot of the last archived offset has later records in the topic
            found.append(
                rect(x, y - 1, max(width, 3), height + 2, "bar bad", f"{tip}, {lacking:,} fewer than the topic")
            )
    return found


def shortened(label: str) -> str:
    """Return a label that fits beside its bar, with an ellipsis in its middle if it is too long."""
    if len(label) <= LABEL_LETTERS_MAX:
        return label
    half = LABEL_LETTERS_MAX // 2
    return f"{label[: half - 1]}…{label[-half:]}"


def _power(bytes_min: int) -> int:
    return max(bytes_min, 1).bit_length() - 1
