"""The commands of `docs/operating.md`: a backup copies and restores all that a broker stores, and ACLs are changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.interop.page import Page, runs

TEXT = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
START = ("pykbroker start --data-dir data", "pykbroker … on 127.0.0.1:9092 (cluster …, data in …)\n")
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

pytestmark = pytest.mark.timeout(180)


def test_a_backup_has_records_topics_and_committed_offsets(tmp_path: Path) -> None:
    back_up, restore, *_ = runs(TEXT)
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


def test_acls_are_allowed_and_checked(tmp_path: Path) -> None:
    _, _, *of_acls = runs(TEXT)
    page = Page(tmp_path)
    authorized = f"--set authorizer.class.name={AUTHORIZER} --set super.users=User:ANONYMOUS"
    try:
        page.run(f"{START[0]} {authorized}", START[1])
        for command, output in of_acls:
            is_denied = "may not" in output
            page.run(f"{command}; [ $? = 1 ]" if is_denied else command, output)
        assert page.stop() == [0]
    finally:
        page.stop()
