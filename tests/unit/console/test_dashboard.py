"""The Grafana dashboard in `examples/` and the page about operating only name metrics that a broker exports."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pykbroker.broker.group_statistics import GroupsStatistics, GroupStatistics, OffsetStatistics
from pykbroker.replica.partition.topic_traffic import TopicTraffic
from pykbroker.replica.topic_statistics import OwnReplica, PlacedPartition, TopicsStatistics, TopicStatistics
from tests.unit.console.observed import Observed

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "examples/grafana/pykbroker.json"
METRIC = re.compile(r"\b(?:kafka|pykbroker|process)_\w+")
LABELS = {"job", "instance", "le"}
"""Labels that Prometheus adds itself, and the label of histogram buckets."""


@pytest.fixture
async def exported() -> dict[str, set[str]]:
    """Return the labels of each exported metric."""
    topic = TopicStatistics("a", TopicTraffic(), [PlacedPartition(0, 1, True, 1, 1, 1, 2)], [OwnReplica(0, 9)])
    group = GroupStatistics("g", 1, (OffsetStatistics("a", 0, 1, 1),))
    observer = Observed(
        found_topics=TopicsStatistics(TopicTraffic(), (topic,), 0), found_groups=GroupsStatistics((group,), 0)
    )
    found: dict[str, set[str]] = {}
    for name, labels in await observer.scrape():
        found.setdefault(name, set()).update(label for label, _ in labels)
    return found


@pytest.fixture
def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text())


def expressions(dashboard: Any) -> list[str]:
    """Return the queries of all panels and variables."""
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    variables = [one["definition"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    return panels + variables


async def test_every_query_of_the_dashboard_names_metrics_and_labels_that_a_broker_exports(
    dashboard: Any, exported: dict[str, set[str]]
) -> None:
    found = expressions(dashboard)
    assert len(found) > 25
    for expression in found:
        metrics = METRIC.findall(expression)
        assert metrics, expression
        assert [name for name in metrics if name not in exported] == []
        for name, selector in re.findall(r"(\w+)\{([^}]*)\}", expression):
            selected = set(re.findall(r"(\w+)=", selector))
            assert selected <= exported[name] | LABELS, expression
        grouped = {label for labels in re.findall(r"by \(([^)]*)\)", expression) for label in labels.split(", ")}
        assert grouped <= set.union(LABELS, *(exported[name] for name in metrics)), expression


def test_panels_of_the_dashboard_have_unique_ids_and_do_not_overlap(dashboard: Any) -> None:
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = sorted((panel["gridPos"] for panel in panels), key=lambda place: (place["y"], place["x"]))
    for left, right in pairwise(places):
        assert left["x"] + left["w"] <= 24
        if left["y"] == right["y"]:
            assert left["x"] + left["w"] <= right["x"]
        else:
            assert left["y"] + left["h"] <= right["y"]


def test_every_variable_that_a_query_uses_is_declared(dashboard: Any) -> None:
    declared = {one["name"] for one in dashboard["templating"]["list"]} | {"__rate_interval"}
    assert {name for one in expressions(dashboard) for name in re.findall(r"\$(\w+)", one)} <= declared


async def test_the_page_about_operating_names_only_metrics_that_a_broker_exports(exported: dict[str, set[str]]) -> None:
    page = (ROOT / "docs/operating.md").read_text()
    named = set(re.findall(r"`((?:kafka|pykbroker|process)_\w+)`", page))
    assert len(named) > 15
    histograms = {name.removesuffix("_bucket") for name in exported if name.endswith("_bucket")}
    assert named <= exported.keys() | histograms
