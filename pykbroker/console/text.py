"""Prometheus' text format. It is rendered in steps that are short enough for the event loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from prometheus_client.metrics_core import Metric

from pykbroker.core.steps import Steps

LINES_A_STEP = 16
"""The number of lines that are rendered in one step. They take about 30 us."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Family(NamedTuple):
    """A metric family: its kind ("counter" or "gauge"), its HELP text, and its samples as (labels as text, value)."""

    name: str
    kind: str
    documentation: str
    samples: Iterable[tuple[str, float]]


def labels(**values: object) -> str:
    """Return labels in Prometheus' text format."""
    return "{" + ",".join(f'{name}="{escaped(str(value))}"' for name, value in values.items()) + "}"


def escaped(value: str) -> str:
    """Return the value of a label with its special characters escaped."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def family_lines(family: Family) -> Iterator[str]:
    """Yield the lines of a metric family."""
    name = family.name
    yield f"# HELP {name} {family.documentation}\n# TYPE {name} {family.kind}\n"
    for text, value in family.samples:
        yield f"{name}{text} {value}\n"


def metric_lines(metric: Metric) -> Iterator[str]:
    """Yield the lines of a metric that was built with prometheus_client."""
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    yield f"# HELP {name} {metric.documentation}\n# TYPE {name} {metric.type}\n"
    for sample in metric.samples:
        yield f"{sample.name}{labels(**sample.labels) if sample.labels else ''} {float(sample.value)}\n"


def rendered(lines: Iterator[str]) -> Steps[bytes]:
    """Join all lines into one text, and yield after every `LINES_A_STEP` lines so that other tasks can run."""
    parts = list[bytes]()
    while some := "".join(islice(lines, LINES_A_STEP)):
        parts.append(some.encode())
        yield
    return b"".join(parts)
