"""The page of an audit."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker.pipeline.audit.findings import AuditFindings, TimeSlot, TopicProfile
from pykbroker.pipeline.audit.page import BARS_MAX, audit_page
from tests.unit.pipeline.audit.samples import findings, partition, side, topic

VOID = {"meta", "line", "rect", "path", "circle", "br"}
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
        if tag not in ("meta", "br"):
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
    assert "script" not in parser.names
    names = {name for name, _ in parser.attributes}
    assert not names & {"href", "src", "onload", "onclick", "xlink:href"}
    assert not re.search(r"url\(|@import|https?://", page)
    for name, value in parser.attributes:
        if name in ("x", "y", "width", "height", "x1", "x2", "y1", "y2", "rx", "d", "viewbox", "fill-opacity"):
            assert not re.search(r"nan|inf|None|e[-+]", value or "nan"), (name, value)
    return parser


def test_the_page_has_the_numbers_of_both_sides_and_both_themes() -> None:
    parser = checked(findings(*BOTH, remarks=["orders: something odd."]))
    words = "".join(parser.words)
    for text in ("The archive is complete", "all 42 records", "Archive against topic", "orders-1", "something odd"):
        assert text in words
    assert "prefers-color-scheme: dark" in words
    assert parser.names.count("svg") == 1 + 1 + 7  # the sign of the verdict, the offsets, and seven plots of the topic


def test_losses_are_on_top() -> None:
    words = "".join(checked(findings(*BOTH, losses=["orders-0: 3 records missing"])).words)
    assert words.index("orders-0: 3 records missing") < words.index("Records")
    assert "complete" not in words


@pytest.mark.parametrize("kind", ["topic", "archive"])
def test_one_side_alone_has_a_page(kind: str) -> None:
    words = "".join(checked(findings(side(kind, BOTH[0].topics[0]))).words)  # type: ignore[arg-type]
    assert "Archive against topic" not in words
    assert "Offsets that have records" in words


def test_texts_of_users_are_escaped() -> None:
    name = '"><script>alert(1)</script>'
    parser = checked(findings(side("archive", topic(name, partition(0, 9))), remarks=["<em>"]))
    assert "b" not in parser.names
    assert "em" not in parser.names
    assert "<b>cold</b>" in parser.words


def test_a_topic_without_records_and_one_with_many_partitions_have_a_page() -> None:
    empty = TopicProfile("empty", [])
    large = topic("large", *(partition(index, index + 1) for index in range(90)))
    words = "".join(checked(findings(side("topic", empty, large))).words)
    assert "This topic has no records." in words
    assert f"the {BARS_MAX} largest of 90 partitions" in words
    checked(AuditFindings(0, "", []))


@settings(max_examples=50)
@given(
    st.lists(st.integers(2, 10**12), min_size=1, max_size=4),
    st.one_of(st.none(), st.integers(0, 2**62)),
    st.integers(0, 2**62),
    st.integers(1, 2**55),
)
def test_any_numbers_make_a_page(counts: list[int], low_ms: int | None, lateness_ms: int, width_ms: int) -> None:
    profiles = [
        partition(index, count, low_ms=low_ms, high_ms=low_ms, lateness_ms_max=lateness_ms, null_keys=count)
        for index, count in enumerate(counts)
    ]
    slots = [TimeSlot((low_ms or 0) + slot * width_ms, width_ms, counts[0], 1) for slot in (0, 119)]
    found = msgspec.structs.replace(topic("t", *profiles), timeline=slots)
    checked(findings(side("topic", found), side("archive", found)))
