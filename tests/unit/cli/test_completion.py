"""Tests that shells complete the command line, with the lines that docs/operating.md names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "operating.md"
PYKBROKER = Path(sys.executable).with_name("pykbroker")
SECONDS_MAX = 30
LINES = dict(re.findall(r"^\| (bash|zsh|fish)[ \d.]* \| `[^`]+`[^|]* \| `(.+)` \|$", PAGE.read_text(), re.MULTILINE))
WORDS = {
    "pykbroker gro": {"groups"},
    "pykbroker groups ": {"delete", "describe", "list", "reset"},
    "pykbroker groups reset --to-": {"--to-current", "--to-earliest", "--to-latest", "--to-offset", "--to-time"},
    "pykbroker groups list --type con": {"consumer"},
}
"""The beginning of a command line -> the words that may follow."""


def run(*words: str, **environment: str) -> str:
    """Return the output of a command that finds this `pykbroker`."""
    path = f"{PYKBROKER.parent}{os.pathsep}{os.environ['PATH']}"
    completed = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        env={**os.environ, "PATH": path, **environment},
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def installed(shell: str) -> str:
    """Return the path of a shell, or skip the test."""
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    return path


@pytest.mark.parametrize("line", WORDS)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_pykbroker_answers_the_completion_script_of_each_shell(shell: str, line: str) -> None:
    environment = {"_PYKBROKER_COMPLETE": f"{shell}_complete", "COMP_WORDS": line}
    if shell == "fish":
        environment["COMP_CWORD"] = line.rpartition(" ")[2]
    else:
        environment["COMP_CWORD"] = str(len(line.split(" ")) - 1)
    answer = run(str(PYKBROKER), **environment)
    match shell:
        case "zsh":  # three lines for each word: type, value, help
            found = answer.splitlines()[1::3]
        case "fish":
            found = re.findall(r"^plain,([^\t\n]+)", answer, re.MULTILINE)
        case _:
            found = re.findall(r"^plain,(.+)$", answer, re.MULTILINE)
    assert set(found) == WORDS[line]


@pytest.mark.parametrize("line", WORDS)
def test_bash_completes_a_command_line_with_the_documented_line(line: str) -> None:
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    script = (
        f"{LINES['bash']}\n"
        f"COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}\n"
        "_pykbroker_completion pykbroker\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    assert set(run(installed("bash"), "--norc", "-c", script).split()) == WORDS[line]


def test_zsh_accepts_the_documented_line() -> None:
    script = f"autoload -U compinit && compinit -u -D\n{LINES['zsh']}\nprint -r -- $_comps[pykbroker]\n"
    assert run(installed("zsh"), "-f", "-c", script).strip() == "_pykbroker_completion"


@pytest.mark.parametrize("line", WORDS)
def test_fish_completes_a_command_line_with_the_documented_line(line: str) -> None:
    script = LINES["fish"].replace("\\|", "|") + f"\ncomplete --do-complete '{line}'\n"
    found = {each.split("\t")[0] for each in run(installed("fish"), "--no-config", "-c", script).splitlines()}
    assert found == WORDS[line]
