"""Tests of Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from pykbroker.console.text import LINES_A_STEP, Family, family_lines, labels, metric_lines, rendered
from pykbroker.core.steps import finish

HOSTILE = 'a"b\\c\nd} 1\n# HELP e'


def test_prometheus_parses_label_values_with_special_characters_unchanged() -> None:
    family = Family("m_total", "counter", "Documented", [(labels(consumergroup=HOSTILE, partition=3), 7), ("", 8)])
    metric = CounterMetricFamily("n", "Documented", labels=["directory"])
    metric.add_metric([HOSTILE], 1e20)
    text = "".join([*family_lines(family), *metric_lines(metric)])
    first, second = text_string_to_metric_families(text)
    assert (first.name, first.type, first.documentation) == ("m", "counter", "Documented")
    assert [sample[:3] for sample in first.samples] == [
        ("m_total", {"consumergroup": HOSTILE, "partition": "3"}, 7),
        ("m_total", {}, 8),
    ]
    assert (second.type, [sample[:3] for sample in second.samples]) == (
        "counter",
        [("n_total", {"directory": HOSTILE}, 1e20)],
    )


def test_long_texts_are_rendered_in_several_steps() -> None:
    made: list[int] = []

    def lines() -> Iterator[str]:
        for number in range(10 * LINES_A_STEP):
            made.append(number)
            yield f"{number}\n"

    steps = rendered(lines())
    next(steps)
    assert len(made) == LINES_A_STEP
    assert finish(steps) == "".join(f"{number}\n" for number in range(10 * LINES_A_STEP)).encode()
