"""Tests of the fuzzer's explorer, which keeps inputs that reach new code and replays findings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner

from pykbroker.apis.configs.list_config_resources import ListConfigResources
from tools.fuzz.__main__ import main
from tools.fuzz.explore import Edges, Explorer
from wire.varint import uvarint


def test_only_the_coverage_of_the_brokers_code_is_recorded() -> None:
    edges = Edges()
    with edges.watched():
        sorted([2, 1], key=str)
        time.localtime()
    assert edges.seen == set()
    with edges.watched():
        uvarint(1)
    first = set(edges.seen)
    with edges.watched():
        uvarint(1)
    assert edges.seen == first
    with edges.watched():
        uvarint(1_000_000)
    assert edges.seen > first


def test_inputs_that_reach_new_code_are_written_to_the_corpus_directory(tmp_path: Path) -> None:
    explorer = Explorer(1, tmp_path)
    trio.run(explorer.run, lambda: explorer.inputs == 100)
    assert 100 > len(explorer.corpus) > 10
    assert sorted(Explorer(2, tmp_path).corpus) == sorted(set(explorer.corpus))


def test_a_finding_ends_the_run_and_can_be_replayed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def planted(*given: Any) -> Any:
        raise KeyError("planted")

    monkeypatch.setattr(ListConfigResources, "__call__", planted)
    found = CliRunner().invoke(main, ["--seconds", "30"])
    assert found.exit_code == 1
    assert "KeyError: 'planted'" in found.stderr
    (tmp_path / "inputs").write_text(found.stdout)
    played = CliRunner().invoke(main, ["--replay", str(tmp_path / "inputs")])
    assert played.exit_code == 1
    monkeypatch.undo()
    played = CliRunner().invoke(main, ["--replay", str(tmp_path / "inputs")])
    assert (played.exit_code, played.output) == (0, "")
