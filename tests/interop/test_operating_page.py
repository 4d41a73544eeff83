"""The commands of `docs/operating.md`: a backup copies and restores all that a broker stores."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.interop.page import Page, runs

TEXT = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
START = ("pykbroker start --data-dir data", "pykbroker … on 127.0.0.1:9092 (cluster …, data in …)\n")

pytestmark = pytest.mark.timeout(180)


def test_a_backup_has_records_topics_and_committed_offsets(tmp_path: Path) -> None:
    back_up, restore = runs(TEXT)
    page = Page(tmp_path)
    try:
        page.run(*START)
        page.run("printf '1\\n2\\n3\\n' | pykbroker produce fruit", "3 records were written to 'fruit'.\n")
        page.run("pykbroker consume fruit --group readers --count 1", "1\n")
        assert page.stop() == [0]
        page.run(*back_up)
        shutil.rmtree(tmp_path / "data")
        page.run(*restore)
        page.run(*START)
        page.run("pykbroker consume fruit --group readers", "2\n3\n")
        assert page.stop() == [0]
    finally:
        page.stop()
