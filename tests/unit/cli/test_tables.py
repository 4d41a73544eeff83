"""Tests of tables on stdout: columns in a pipe, drawn on a terminal."""

from __future__ import annotations

import builtins
import json
import sys
from typing import Any

import pytest

from pykbroker.cli.tables import Table

TABLE = Table(("topic", "log_end", "isr"), [("orders", None, [1, 2]), ("[b]", 7, []), ("c", True, False)])
COLUMNS = "TOPIC   LOG END  ISR\norders  -        1,2\n[b]     7\nc       yes      no\n"


def test_a_table_in_a_pipe_has_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    TABLE.show(as_json=False)
    assert capsys.readouterr().out == COLUMNS


def test_a_table_as_json_is_an_array_of_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    TABLE.show(as_json=True)
    assert json.loads(capsys.readouterr().out) == [
        {"topic": "orders", "log_end": None, "isr": [1, 2]},
        {"topic": "[b]", "log_end": 7, "isr": []},
        {"topic": "c", "log_end": True, "isr": False},
    ]


def test_a_table_on_a_terminal_is_drawn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    TABLE.print()
    drawn = capsys.readouterr().out
    assert drawn != COLUMNS
    assert all(word in drawn for word in ("TOPIC", "LOG END", "orders", "1,2", "[b]"))


def test_a_terminal_without_rich_has_plain_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without_rich(name: str, *args: Any, **keywords: Any) -> Any:
        if name.startswith("rich"):
            raise ImportError(name)
        return real(name, *args, **keywords)

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(builtins, "__import__", without_rich)
    TABLE.print()
    assert capsys.readouterr().out == COLUMNS


def test_control_characters_of_a_name_are_escaped_in_a_table_and_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(("transactional_id",), [("a\x1b[1m\x9b\n",), ("J\u00fcrgen",)])
    table.show(as_json=False)
    assert capsys.readouterr().out == "TRANSACTIONAL ID\na\\x1b[1m\\x9b\\n\nJ\u00fcrgen\n"
    table.show(as_json=True)
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert json.loads(printed) == table.records()
