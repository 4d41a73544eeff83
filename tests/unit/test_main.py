"""Tests of the Python versions that can run the broker, and of the error for all others."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from pykbroker import __main__


def test_an_old_python_prints_an_error_with_the_required_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 8, 10))
    assert __main__.refusal() == f"pykbroker needs Python 3.11 or newer, and {sys.executable} is 3.8"


def test_old_pythons_can_parse_the_main_file() -> None:
    for file in (__main__.__file__, Path(__main__.__file__).with_name("__init__.py")):
        ast.parse(Path(file).read_text(), feature_version=(3, 4))


@pytest.mark.parametrize("options", [["-O"], ["-OO"]])
def test_a_python_with_disabled_assertions_is_refused(options: list[str]) -> None:
    command = [sys.executable, *options, "-m", "pykbroker", "start", "--memory"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert ended.returncode == 1
    assert "python -O" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_help_imports_neither_trio_nor_the_broker() -> None:
    program = "import sys; from pykbroker.cli.main import pykbroker; pykbroker(['--help'], standalone_mode=False); "
    program += "assert not {'trio', 'msgspec', 'pykbroker.broker', 'pykbroker.core.config.config'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=50)
