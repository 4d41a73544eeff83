"""Tests of `pykbroker users` with a broker."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker as command


def run(broker: str, *words: str) -> Result:
    return CliRunner().invoke(command, ["users", *words, "-b", broker])


def test_users_are_added_changed_listed_and_removed(broker: str, tmp_path: Path) -> None:
    assert run(broker, "list").stdout == "USER  MECHANISM  ITERATIONS\n"
    (tmp_path / "file").write_text("bob\n")
    added = run(broker, "add", "alice:secret", f"@{tmp_path}/file")
    first, second, password = added.stdout.splitlines()
    assert (first, second) == ("user alice is added", "user bob is added")
    assert password.startswith("the password of bob is ")
    assert run(broker, "add", "alice:other").stdout == "user alice has another password\n"
    listed = json.loads(run(broker, "list", "--json").stdout)
    assert [tuple(row.values()) for row in listed] == [
        (user, mechanism, 4096) for user in ("alice", "bob") for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    ]
    removed = run(broker, "remove", "alice", "carol", "alice")
    assert (removed.exit_code, removed.stdout) == (1, "user alice is removed\n")
    assert removed.stderr == "Error: there is no user carol: `pykbroker users list` lists all\n"
    assert run(broker, "remove", "bob").exit_code == 0
    assert json.loads(run(broker, "list", "--json").stdout) == []


def test_a_word_that_is_no_user_is_refused_before_anything_changes(broker: str) -> None:
    refused = run(broker, "add", "dave:secret", "dave:again")
    assert (refused.exit_code, "dave is there twice" in refused.stderr) == (2, True)
    assert json.loads(run(broker, "list", "--json").stdout) == []
