"""Tests of Kafka's tools, as translated, against a running broker.

`transcript.txt` has what the tools of Apache Kafka 4.3.1 print for a node of Kafka 4.3.1. "…" stands for anything in a
line, and alone for any lines. Lines with "<" are the standard input.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import NamedTuple

import pytest

from pykbroker.cli.kafka_tools.__main__ import main
from tests.interop.java_tools import agree, filled, lines_of


class Run(NamedTuple):
    """A run of a tool: its words, its standard input, and its expected output."""

    words: list[str]
    reads: str
    text: str


def runs() -> dict[str, Run]:
    """Return the runs of the transcript by title."""
    found = {}
    for part in re.split(r"^# ", Path(__file__).with_name("transcript.txt").read_text(), flags=re.MULTILINE)[1:]:
        title, call, *lines = part.split("\n")
        reads = [line.removeprefix("< ") for line in lines if line.startswith("< ")]
        text = [line for line in lines if not line.startswith("< ")]
        found[title] = Run(shlex.split(call.removeprefix("$ ")), "\n".join(reads), "\n".join(text))
    return found


RUNS = runs()


def printed(words: list[str], reads: str = "") -> str:
    """Run a tool in this process. Return all that it prints, with a last line about its exit code."""
    output = TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True)
    before, sys.stdin = sys.stdin, TextIOWrapper(BytesIO(reads.encode()), encoding="utf-8")
    try:
        with redirect_stdout(output), redirect_stderr(output):
            code = main(words)
    finally:
        sys.stdin = before
    return f"{output.buffer.getvalue().decode()}exit {code}\n"


@pytest.fixture(scope="module")
def outputs(broker: str) -> Mapping[str, str]:
    """Return the output of all runs, in their order."""
    found = {}
    for title, run in RUNS.items():
        name, *words = run.words
        found[title] = printed([name, "--bootstrap-server", broker, *words], run.reads)
    return found


@pytest.mark.parametrize("title", RUNS)
def test_a_tool_prints_what_kafkas_tool_prints(outputs: Mapping[str, str], broker: str, title: str) -> None:
    expected = filled(RUNS[title].text, {"host": broker})
    assert agree(lines_of(expected), lines_of(outputs[title])), f"{outputs[title]}\ninstead of\n{expected}"
