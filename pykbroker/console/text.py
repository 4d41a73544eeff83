"""Prometheus' text format. It is rendered in steps that are short enough for the event loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from pykbroker.core.steps import Steps

LINES_A_STEP = 64
"""The number of lines that are rendered in one step. They take about 30 us."""
PORTION_BYTES_MIN = 1 << 16
"""The number of bytes from which a portion of a text is complete."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Family(NamedTuple):
    """A metric family: its kind, such as "counter" or "gauge", its HELP text, and its samples as (text, value).

    The text of a sample is what stands behind the name: its labels, and before them a suffix of a histogram.
    """

    name: str
    kind: str
    documentation: str
    samples: Iterable[tuple[str, float]]


def gauge(name: str, documentation: str, value: float) -> Family:
    """Return a gauge with one sample, which has no labels."""
    return Family(name, "gauge", documentation, [("", value)])


def labels(**values: object) -> str:
    """Return labels in Prometheus' text format."""
    return "{" + ",".join(f'{name}="{escaped(str(value))}"' for name, value in values.items()) + "}"


def escaped(value: str) -> str:
    """Return the value of a label with its special characters escaped."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def family_text(family: Family) -> Iterator[str]:
    """Yield the text of a metric family in pieces of at most `LINES_A_STEP` samples."""
    name, samples = family.name, iter(family.samples)
    yield f"# HELP {name} {family.documentation}\n# TYPE {name} {family.kind}\n"
    while some := "".join([f"{name}{text} {value}\n" for text, value in islice(samples, LINES_A_STEP)]):
        yield some


def portions(pieces: Iterable[str]) -> Steps[list[bytes]]:
    """Encode a text as portions of `PORTION_BYTES_MIN` bytes and more, and yield after every piece of the text.

    A single text of many megabytes would take too long to join.
    """
    found, waiting, size = list[bytes](), list[str](), 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= PORTION_BYTES_MIN:
            found.append("".join(waiting).encode())
            waiting, size = [], 0
        yield
    found.append("".join(waiting).encode())
    return found
