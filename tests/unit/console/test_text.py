"""Tests of Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from pykbroker.console.text import LINES_A_STEP, PORTION_BYTES_MIN, Family, family_text, labels, portions
from pykbroker.core.steps import finish

HOSTILE = 'a"b\\c\nd} 1\n# HELP e'


def test_prometheus_parses_label_values_with_special_characters_unchanged() -> None:
    family = Family("m_total", "counter", "Documented", [(labels(consumergroup=HOSTILE, partition=3), 7), ("", 8)])
    (found,) = text_string_to_metric_families("".join(family_text(family)))
    assert (found.name, found.type, found.documentation) == ("m", "counter", "Documented")
    assert [sample[:3] for sample in found.samples] == [
        ("m_total", {"consumergroup": HOSTILE, "partition": "3"}, 7),
        ("m_total", {}, 8),
    ]


def test_long_families_are_rendered_in_pieces() -> None:
    samples = [(labels(partition=number), number) for number in range(2 * LINES_A_STEP + 1)]
    pieces = list(family_text(Family("m", "gauge", "Documented", samples)))
    assert [piece.count("\n") for piece in pieces] == [2, LINES_A_STEP, LINES_A_STEP, 1]
    (family,) = text_string_to_metric_families("".join(pieces))
    assert [sample.value for sample in family.samples] == [value for _, value in samples]


def test_a_text_is_encoded_piece_by_piece_in_portions_with_a_minimum_size() -> None:
    made: list[int] = []
    piece = "é" * (PORTION_BYTES_MIN // 2)

    def pieces() -> Iterator[str]:
        for number in range(5):
            made.append(number)
            yield piece

    steps = portions(pieces())
    next(steps)
    assert len(made) == 1
    found = finish(steps)
    assert [len(portion) for portion in found] == [2 * PORTION_BYTES_MIN, 2 * PORTION_BYTES_MIN, PORTION_BYTES_MIN]
    assert b"".join(found) == (5 * piece).encode()
