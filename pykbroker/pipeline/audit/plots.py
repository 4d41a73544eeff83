"""The plots of an audit that have axes, drawn by pygal as SVG. Their colours are those of the page and its theme."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pygal
from markupsafe import Markup
from pygal.etree import etree
from pygal.style import Style

from pykbroker.pipeline.audit.axes import time_ticks
from pykbroker.pipeline.audit.findings import KeyShare, SizeCount, TimeSlot
from pykbroker.pipeline.quantities import counted, duration, moment, share, short, size

WIDE, HALF = 1000, 420
HEIGHT = 210
LETTER_PX = 11
PERCENTS = (0, 25, 50, 75, 100)
CORE = 0.35
"""The place of the bar of the archive inside that of the topic, as a part of the width."""


class Drawing(NamedTuple):
    """A plot: its title for screen readers, its size in px, and the inner elements of its SVG."""

    title: str
    classes: str
    width: int
    height: int
    content: Markup


def rates(series: Sequence[tuple[str, Sequence[TimeSlot]]]) -> Drawing:
    """Return the records of each series over time. The bars of a second series lie inside those of the first one."""
    every = [slot for _, slots in series for slot in slots]
    start, width_ms, highest = min(slot.start_ms for slot in every), every[0].width_ms, max(s.records for s in every)
    by_slot = [(side, {(slot.start_ms - start) // width_ms: slot for slot in slots}) for side, slots in series]
    count = max(max(slots) for _, slots in by_slot) + 1
    ticks = [((ms - start) / width_ms, label) for ms, label in time_ticks(start, start + count * width_ms)]
    chart = _chart(pygal.Histogram, WIDE, ticks, short)
    for index, (side, slots) in enumerate(by_slot):
        inset = CORE * index
        chart.add(side, [_bar(slots[i].records, i + inset, i + 1 - inset, side) for i in slots])
    tips = []
    for i in range(count):
        numbers = "; ".join(
            f"{side} {counted(slots[i].records, 'record')}, {size(slots[i].bytes)}"
            for side, slots in by_slot
            if i in slots
        )
        tips.append(_bar(highest, i, i + 1, "hover", f"from {moment(start + i * width_ms)}: {numbers or 'no records'}"))
    chart.add("", tips)
    return _drawing(chart, f"records per {duration(width_ms)} over time", "pair" if len(series) > 1 else "")


def key_curve(curve: Sequence[KeyShare], side: str) -> Drawing:
    """Return the share of the records by the share of the keys, the most frequent keys first.

    The second line is that of keys that are all equally frequent.
    """
    percents = [(each, f"{each} %") for each in PERCENTS]
    chart = _chart(pygal.XY, HALF, percents, "{:.0f} %".format, x_title="share of the keys", fill=True)
    chart.y_labels = PERCENTS
    keys, records = curve[-1].keys, curve[-1].records
    chart.add(side, [(100 * each.keys / keys, 100 * each.records / records) for each in curve])
    chart.add("", [(0, 0), (100, 100)], fill=False)
    return _drawing(chart, "share of the records by share of the keys", side)


def value_sizes(sizes: Sequence[SizeCount], side: str) -> Drawing:
    """Return the number of values by size, in columns that double in size."""
    in_all = sum(each.records for each in sizes)
    powers = [max(each.bytes_min, 1).bit_length() - 1 for each in sizes]
    every = range(powers[0], powers[-1] + 2)
    ticks = [(power, size(2**power if power else 0)) for power in every[:: -(-len(every) // 7)]]
    chart = _chart(pygal.Histogram, HALF, ticks, short)
    bars = []
    for power, each in zip(powers, sizes, strict=True):
        tip = f"{size(each.bytes_min)} to {size(2 ** (power + 1) - 1)}: {counted(each.records, 'value')}, "
        bars.append(_bar(each.records, power + 0.03, power + 0.97, side, tip + share(each.records, in_all)))
    chart.add(side, bars)
    return _drawing(chart, "number of values by size")


def _bar(height: float, low: float, high: float, css_class: str, tip: str = "") -> dict[str, Any]:
    return {"value": (height, low, high), "node": {"class": css_class}, **({"tooltip": tip} if tip else {})}


def _chart(kind: Any, width: int, ticks: Sequence[tuple[float, str]], value_formatter: Any, **options: Any) -> Any:
    """Return an empty chart with labels at some places of its x axis."""
    labels = [{"value": place, "label": label} for place, label in ticks]
    return kind(
        style=Style(label_font_size=LETTER_PX, major_label_font_size=LETTER_PX, title_font_size=LETTER_PX),
        width=width,
        height=HEIGHT,
        margin=6,
        margin_right=18,  # for the second half of the last label
        spacing=8,
        show_legend=False,
        show_dots=False,
        x_labels=labels,
        truncate_label=-1,  # pygal would cut labels
        value_formatter=value_formatter,
        min_scale=3,
        max_scale=6,
        order_min=0,  # the ticks of values are whole numbers
        **options,
    )


def _drawing(chart: Any, title: str, classes: str = "") -> Drawing:
    """Draw a chart. Its styles, scripts, tips of labels, and comments, one of which has the date, are left out."""
    etree.to_etree()  # pygal takes lxml if it is installed, which writes other text
    graph = chart.render_tree().find("g")
    for parent in list(graph.iter()):
        for child in list(parent):
            is_tip_of_label = child.tag == "title" and parent.get("class") == "guides"  # such as the number of a slot
            if child.tag == "desc" or is_tip_of_label or "overlay" in child.get("class", ""):
                parent.remove(child)
        for name in ("x", "y", "width", "height"):
            if name in parent.attrib:
                parent.set(name, f"{float(parent.get(name)):.1f}")
    return Drawing(
        title, classes, chart.config.width, chart.config.height, Markup(ElementTree.tostring(graph, encoding="unicode"))
    )
