"""A module named `wire` of the user, in the command, in pytest and in pytest-xdist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import wire
from pykbroker.world.shadowing import require_ours

SHADOWED = "shadows the package wire of pykbroker"
USER_TEST = """
import wire


def test_a_topic_is_created(kafka_broker):
    assert wire.MINE
    kafka_broker.topic()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a directory with a `wire.py`."""
    (tmp_path / "wire.py").write_text("MINE = True\n")
    (tmp_path / "test_mine.py").write_text(USER_TEST)
    return tmp_path


def run(project: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=project, env={**os.environ, **environment}, capture_output=True, text=True, timeout=50
    )


def test_the_module_of_the_current_directory_is_named_by_python_m(project: Path) -> None:
    ended = run(project, sys.executable, "-m", "pykbroker", "--version")
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"pykbroker: {project}/wire.py {SHADOWED}")
    assert "Traceback" not in ended.stderr


def test_the_module_of_pythonpath_is_named_by_the_command(project: Path) -> None:
    command = str(Path(sys.executable).with_name("pykbroker"))
    assert run(project, command, "--version").returncode == 0
    ended = run(project, command, "--version", PYTHONPATH=str(project))
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"pykbroker: {project}/wire.py {SHADOWED}")


@pytest.mark.parametrize("options", [[], ["-n", "1"]])
def test_pytest_names_the_module_of_its_rootdir(project: Path, options: list[str]) -> None:
    ended = run(project, sys.executable, "-m", "pytest", "-q", *options)
    assert ended.returncode == 1
    assert f"ImportError: {project}/wire.py {SHADOWED}" in ended.stdout


def test_pytest_warns_when_an_import_would_find_ours(project: Path) -> None:
    (project / "test_mine.py").write_text(USER_TEST.replace("wire.MINE", "wire.__file__"))
    ended = run(project, sys.executable, "-P", "-m", "pytest", "-q", "--import-mode=importlib")
    assert ended.returncode == 0, ended.stdout
    assert f"and not {project}/wire.py" in ended.stdout


def test_another_module_further_on_the_path_gets_a_warning(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(project)])
    with pytest.warns(UserWarning, match="and not .*wire.py"):
        require_ours()


def test_a_module_that_is_already_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require_ours()
    monkeypatch.setattr(wire, "__file__", "/somewhere/wire.py")
    with pytest.raises(ImportError, match=f"/somewhere/wire.py {SHADOWED}"):
        require_ours()


def test_a_folder_without_code_shadows_nothing(project: Path) -> None:
    (project / "wire.py").unlink()
    (project / "wire").mkdir()
    assert run(project, sys.executable, "-m", "pykbroker", "--version").returncode == 0
