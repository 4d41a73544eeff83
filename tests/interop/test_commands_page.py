"""The commands of `docs/commands.md` and their output, from the top of the page to its bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.page import Page, runs

TEXT = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
PARTS = TEXT.split("## Brokers and replicas\n")

pytestmark = pytest.mark.timeout(180)


def test_the_page_is_run_from_its_top() -> None:
    assert len(runs(TEXT)) == TEXT.count("\n$ ")
    assert [runs(part)[0][0] for part in PARTS] == ["pykbroker start --memory", "pykbroker cluster --memory"]


@pytest.mark.parametrize("part", PARTS, ids=["one broker", "a cluster"])
def test_each_command_prints_its_output(part: str, tmp_path: Path) -> None:
    page = Page(tmp_path)
    try:
        for command, expected in runs(part):
            page.run(command, expected)
        assert page.stop() == [0]
    finally:
        page.stop()
