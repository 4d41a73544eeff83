"""The report of a job, as JSON and as text, and its exit code."""

from __future__ import annotations

import json

from pykbroker.pipeline.report import ExitCode, JobReport

FIGURES = {"records": 12_345, "target": "/lake", "topics": {"a": 1}, "names": []}


def test_a_report_is_one_line_of_json() -> None:
    report = JobReport("archive", FIGURES, ["gone"], 1.23456)
    assert "\n" not in report.json()
    assert json.loads(report.json()) == {
        "job": "archive",
        **FIGURES,
        "losses": ["gone"],
        "is_interrupted": False,
        "seconds": 1.235,
    }


def test_the_exit_code_tells_loss() -> None:
    assert (int(ExitCode.DONE), int(ExitCode.FAILED), int(ExitCode.USAGE), int(ExitCode.LOSS)) == (0, 1, 2, 3)
    assert JobReport("verify").exit_code is ExitCode.DONE
    assert JobReport("verify", losses=["x"]).exit_code is ExitCode.LOSS


def test_a_report_for_a_person_names_losses_last() -> None:
    text = JobReport("archive", FIGURES, ["offset 3"], 1.25).text()
    assert text.splitlines() == [
        "archive: LOSS in 1.2 s",
        "  records: 12,345",
        "  target: /lake",
        "  topics: a 1",
        "  names: none",
        "  lost: offset 3",
    ]
    assert JobReport("archive", is_interrupted=True).text() == "archive: interrupted in 0.0 s"
