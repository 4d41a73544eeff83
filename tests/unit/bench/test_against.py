"""Tests of the comparison of two builds: the change of a figure, and which packages a build runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.bench.build import Build
from tools.bench.change import AFTER, BEFORE, Change
from tools.bench.peers import REPOSITORY
from tools.bench.row import Figure

CPU = Figure("broker CPU us/req", digits=1)


def test_a_change_has_the_median_and_the_range_of_the_ratios_of_its_pairs() -> None:
    change = Change("row", CPU)
    for before, after in (([10.0, 30.0], [22.0, 22.0]), ([10.0], [9.0]), ([1000.0], [1500.0])):
        change.add({AFTER: after, BEFORE: before})
    assert change.ratios() == [1.1, 0.9, 1.5]
    assert change.markdown() == "| row | broker CPU us/req | 20.0 | 22.0 | 1.100 | 0.900-1.500 | 3 |"


def test_a_pair_that_one_build_cannot_measure_is_left_out() -> None:
    change = Change("row", CPU)
    for values in ({AFTER: [1.0]}, {BEFORE: [1.0]}, {BEFORE: [], AFTER: [1.0]}, {}):
        change.add(values)
    assert change.pairs == []


def test_a_figure_of_0_has_no_ratio() -> None:
    change = Change("row", CPU)
    change.add({BEFORE: [0.0], AFTER: [2.0]})
    assert change.ratios() == []
    assert change.markdown() == "| row | broker CPU us/req | 0.0 | 2.0 | - | - | 1 |"


def test_a_build_runs_its_own_packages_and_the_tools_of_this_tree(tmp_path: Path) -> None:
    for package in ("pykbroker", "wire"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    program = "import pykbroker, tools, wire; print(pykbroker.__file__, wire.__file__, *tools.__path__)"
    command = [*Build(BEFORE, tmp_path).python, "-c", program]
    ran = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    found = [Path(word) for word in ran.stdout.split()]
    assert found == [tmp_path / "pykbroker/__init__.py", tmp_path / "wire/__init__.py", REPOSITORY / "tools"]


def test_a_commit_that_git_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no-such-commit"):
        Build.of_commit(BEFORE, tmp_path, "no-such-commit")
