"""The page of an audit."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest

from pykbroker.pipeline.audit import plots
from pykbroker.pipeline.audit.findings import (
    AuditFindings,
    KeyCount,
    OffsetStrip,
    Side,
    SideProfile,
    TimeSlot,
    TopicProfile,
)
from pykbroker.pipeline.audit.page import BARS_MAX, audit_page
from tests.unit.pipeline.audit.samples import findings, partition, side, topic

BOTH = [side(kind, topic("orders", partition(0, 40), partition(1, 2))) for kind in ("topic", "archive")]


class Checker(HTMLParser):
    """A parser that keeps the text of a page, and checks that each element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.words: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def checked(found: AuditFindings) -> Checker:
    """Return the parsed page, which is well-formed, needs no network, has no script, and whose numbers are finite."""
    page = audit_page(found)
    parser = Checker()
    parser.feed(page)
    assert parser.open == []
    assert not {"script", "link", "img"} & set(parser.names)
    assert page.startswith("<!DOCTYPE html>")
    assert "<!--" not in page  # pygal writes the day into a comment
    names = {name for name, _ in parser.attributes}
    assert not names & {"href", "src", "onload", "onclick", "xlink:href"}
    assert not re.search(r"url\(|@import|https?://", page)
    for name, value in parser.attributes:
        if name in ("x", "y", "width", "height", "x1", "x2", "y1", "y2", "rx", "d", "viewbox", "style"):
            assert not re.search(r"nan|inf|None|e[-+]", value or "nan"), (name, value)
    return parser


def test_the_page_has_the_numbers_of_both_sides_and_both_themes() -> None:
    found = findings(*BOTH, remarks=["orders: something odd."])
    parser = checked(found)
    assert audit_page(found) == audit_page(found)
    words = "".join(parser.words)
    for text in ("The archive is complete", "all 42 records", "Archive against topic", "orders-1", "something odd"):
        assert text in words
    assert "prefers-color-scheme: dark" in words
    heads = ["Offsets that have records", "Rate", "Records by partition", "Disorder of timestamps", "Skew of keys"]
    heads += ["Records without a key or a value", "Most frequent keys", "Sizes of values", "Partitions, archive"]
    assert set(heads) <= set(parser.words)
    assert parser.names.count("svg") == 3  # the rate, the skew of keys, and the sizes
    tips = [value for name, value in parser.attributes if name == "title"]
    assert {"topic 40; archive 40", "offsets from 0: archive has 18 records"} <= set(tips)
    assert "from 2025-11-24 16:00:00: topic 5 records, 50 B; archive 5 records, 50 B" in parser.words
    assert "from 2025-11-24 16:07:00: no records" in parser.words


def test_offsets_that_the_archive_lacks_are_marked() -> None:
    counts: dict[Side, list[int]] = {"topic": [4] * 6 + [0] * 94, "archive": [4, 4, 1, 1, 4, 2] + [0] * 94}
    strip = OffsetStrip("orders", 0, 0, 4, counts)
    parser = checked(msgspec.structs.replace(findings(*BOTH), strips=[strip]))
    fewer = "offsets from 8: archive has 2 records, 6 fewer than the topic"
    assert ("title", fewer) in parser.attributes
    assert ("title", "offsets from 20: archive has 2 records, 2 fewer than the topic") in parser.attributes
    counts["archive"][4:6] = [0, 0]  # the last archived offset is below their end
    last = [side(kind, topic("orders", partition(0, 16), partition(1, 2))) for kind in ("topic", "archive")]
    parser = checked(msgspec.structs.replace(findings(*last), strips=[strip]))
    assert ("title", "offsets from 16: archive has 0 records") in parser.attributes


def test_losses_are_on_top() -> None:
    words = "".join(checked(findings(*BOTH, losses=["orders-0: 3 records missing"])).words)
    assert words.index("orders-0: 3 records missing") < words.index("Records")
    assert "complete" not in words


@pytest.mark.parametrize("kind", ["topic", "archive"])
def test_one_side_alone_has_a_page(kind: str) -> None:
    words = "".join(checked(findings(side(kind, BOTH[0].topics[0]))).words)  # type: ignore[arg-type]
    assert "Archive against topic" not in words
    assert "Offsets that have records" in words


HOSTILE = """"'><script>alert(1)</script>{{ 7 * 7 }}{% raw %}&amp;</style></svg>\x1b"""


def test_texts_of_users_are_escaped() -> None:
    profile = topic(HOSTILE, partition(0, 9))
    profile = msgspec.structs.replace(profile, top_keys=[KeyCount(HOSTILE, 5)])
    found = AuditFindings(0, HOSTILE, [SideProfile("archive", HOSTILE, [profile])], remarks=[HOSTILE], losses=[HOSTILE])
    parser = checked(msgspec.structs.replace(found, strips=[OffsetStrip(HOSTILE, 0, 0, 2, {"archive": [2] * 9})]))
    assert sum(word.count(HOSTILE) for word in parser.words) == 9  # title, head, place, cluster, loss, remark, ...
    assert [value for _, value in parser.attributes].count(HOSTILE) == 1
    assert ("title", f"{HOSTILE}-0") in parser.attributes


def test_a_topic_without_records_and_one_with_many_partitions_have_a_page() -> None:
    empty = TopicProfile("empty", [])
    large = topic("large", *(partition(index, index + 1) for index in range(90)))
    words = "".join(checked(findings(side("topic", empty, large))).words)
    assert "This topic has no records." in words
    assert f"the {BARS_MAX} largest of 90 partitions" in words
    checked(AuditFindings(0, "", []))


@pytest.mark.parametrize("low_ms", [None, 0, 2**62])
@pytest.mark.parametrize("count", [2, 20_002, 10**12])
def test_any_numbers_make_a_page(count: int, low_ms: int | None) -> None:
    partitions = [
        partition(0, count, low_ms=low_ms, high_ms=low_ms, lateness_ms_max=2**62, null_keys=count, steps_back=1),
        partition(1, 1, low_ms=low_ms, high_ms=low_ms, null_values=1),
    ]
    width_ms = 1 if count == 2 else 2**55
    slots = [TimeSlot((low_ms or 0) + slot * width_ms, width_ms, count, 1) for slot in (0, 119)]
    found = msgspec.structs.replace(topic("t", *partitions), timeline=slots)
    checked(findings(side("topic", found), side("archive", found)))


def test_the_axis_of_values_has_whole_numbers_and_no_label_has_a_tip() -> None:
    content = plots.rates([("topic", [TimeSlot(0, 1000, 2, 2)])]).content
    assert re.findall(r'<text x="-5.0"[^>]*>([^<]+)<', content) == ["0", "1", "2"]
    assert re.findall("<title>(.*?)</title>", content) == ["from 1970-01-01 00:00:00: topic 2 records, 2 B"]
