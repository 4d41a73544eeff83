"""Tests that shells complete the command line, with the lines that docs/operating.md names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykbroker.cli.main import pykbroker
from pykbroker.cli.new_users import new_salt
from pykbroker.client.admin.admin import Admin
from pykbroker.client.admin.users import add_user
from pykbroker.core.security.secret import Secret
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.testing.running import running_broker
from tests.unit.cli.group_requests import commit
from tests.unit.cli.requests import prepare

PAGE = Path(__file__).parents[3] / "docs" / "operating.md"
PYKBROKER = Path(sys.executable).with_name("pykbroker")
SECONDS_MAX = 30
LINES = dict(re.findall(r"^\| (bash|zsh|fish)[ \d.]* \| `[^`]+`[^|]* \| `(.+)` \|$", PAGE.read_text(), re.MULTILINE))
WORDS = {
    "pykbroker gro": {"groups"},
    "pykbroker us": {"users"},
    "pykbroker acl": {"acls"},
    "pykbroker acls ": {"allow", "check", "deny", "list", "remove"},
    "pykbroker acls allow alice read,wr": {"read,WRITE"},
    "pykbroker topics list --cl": {"--client-config"},
    "pykbroker pipeline verify --cl": {"--client-config"},
    "pykbroker start --t": {"--tls", "--topic"},
    "pykbroker start --tls a": {"auto"},
    "pykbroker start --us": {"--user"},
    "pykbroker start --au": {"--authorize"},
    "pykbroker bro": {"brokers"},
    "pykbroker topics reassign --a": {"--all-topics", "--away-from"},
    "pykbroker groups ": {"delete", "describe", "list", "reset"},
    "pykbroker groups reset --to-": {"--to-current", "--to-earliest", "--to-latest", "--to-offset", "--to-time"},
    "pykbroker groups list --type con": {"consumer"},
}
"""The beginning of a command line -> the words that may follow."""
IN_SHELLS = ["pykbroker topics reassign --a", "pykbroker acls ", "pykbroker start --tls a"]
"""The lines that a shell completes by its own script."""
NOWHERE = "127.0.0.1:1"
NAMES = {
    "pykbroker topics describe ": {"orders", "payments"},
    "pykbroker topics delete __consumer": {"__consumer_offsets"},
    "pykbroker topics offsets o": {"orders"},
    "pykbroker topics reassign o": {"orders"},
    "pykbroker topics elect orders pay": {"payments"},
    "pykbroker configs describe topic pay": {"payments"},
    "pykbroker configs describe broker ": set(),
    "pykbroker producers describe pay": {"payments"},
    "pykbroker produce ord": {"orders"},
    "pykbroker bench produce ord": {"orders"},
    "pykbroker consume payments ord": {"orders"},
    "pykbroker consume orders --group ": {"audit", "billing"},
    "pykbroker bench consume ord": {"orders"},
    "pykbroker groups describe ": {"audit", "billing"},
    "pykbroker groups delete aud": {"audit"},
    "pykbroker groups reset bill": {"billing"},
    "pykbroker groups reset billing --topic ord": {"orders"},
    "pykbroker users remove ali": {"alice"},
    "pykbroker acls allow ali": {"alice"},
    "pykbroker acls list --topic ord": {"orders"},
    "pykbroker acls check alice READ --group a": {"audit"},
}
"""The beginning of a command line -> the names of the cluster that may follow."""


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


def answer(shell: str, line: str, **variables: str) -> str:
    """Return what `pykbroker` answers to the completion script of a shell."""
    environment = {"_PYKBROKER_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, **variables}
    if shell == "fish":
        environment["COMP_CWORD"] = line.rpartition(" ")[2]
    else:
        environment["COMP_CWORD"] = str(len(line.split(" ")) - 1)
    return CliRunner().invoke(pykbroker, env=environment, prog_name="pykbroker").output


def completed(shell: str, line: str, **variables: str) -> set[str]:
    """Return the words with which `pykbroker` answers the completion script of a shell."""
    found = answer(shell, line, **variables)
    match shell:
        case "zsh":  # three lines for each word: type, value, help
            words = found.splitlines()[1::3]
        case "fish":
            words = re.findall(r"^plain,([^\t\n]+)", found, re.MULTILINE)
        case _:
            words = re.findall(r"^plain,(.+)$", found, re.MULTILINE)
    return set(words)


@pytest.mark.parametrize("line", WORDS)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_pykbroker_answers_the_completion_script_of_each_shell(shell: str, line: str) -> None:
    assert completed(shell, line) == WORDS[line]


@pytest.fixture(scope="module")
def busy_broker(broker: str) -> str:
    """Return the address of a broker with two topics, an internal topic and two groups."""

    async def prepared(admin: Admin) -> None:
        for topic in ("orders", "payments"):
            await admin.create_topic(topic, 1, -1, {})
        await add_user(admin, "alice", Secret("secret"), new_salt)
        for group in ("audit", "billing"):
            await commit(admin, group, {TopicPartition("orders", 0): 0})

    prepare(broker, prepared)
    return broker


@pytest.mark.parametrize(("line", "expected"), NAMES.items())
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_names_of_the_cluster_are_completed(busy_broker: str, shell: str, line: str, expected: set[str]) -> None:
    assert completed(shell, line, PYKBROKER_BOOTSTRAP=busy_broker) == expected


def test_the_option_bootstrap_names_the_cluster_of_the_completed_names(busy_broker: str) -> None:
    line = f"pykbroker topics delete -b {busy_broker} pay"
    assert completed("bash", line, PYKBROKER_BOOTSTRAP=NOWHERE) == {"payments"}


def test_the_names_of_a_secured_cluster_are_completed_with_the_file_of_the_client(tmp_path: Path) -> None:
    file, line = tmp_path / "alice", "pykbroker topics delete "
    with running_broker(topics=["orders"], users={"alice": "secret"}) as secured:
        properties = secured.java("alice")
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        at = {"PYKBROKER_BOOTSTRAP": secured.bootstrap}
        assert completed("bash", f"{line}--client-config {file} ", **at) == {"orders"}
        assert completed("bash", line, PYKBROKER_CLIENT_CONFIG=str(file), **at) == {"orders"}
        file.write_text(file.read_text().replace("secret", "wrong"))
        assert completed("bash", line, PYKBROKER_CLIENT_CONFIG=str(file), **at) == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_itself_completes_the_file_of_the_client(shell: str) -> None:
    """zsh has three lines for each word: type, value, help."""
    for command in ("users list", "acls list", "pipeline archive"):
        found = answer(shell, f"pykbroker {command} --client-config al")
        assert found.split() == (["file", "al", "_"] if shell == "zsh" else ["file,al"])


@pytest.mark.parametrize("line", NAMES)
def test_a_cluster_that_does_not_answer_completes_nothing(line: str) -> None:
    assert completed("bash", line, PYKBROKER_BOOTSTRAP=NOWHERE) == set()


@pytest.mark.parametrize("line", IN_SHELLS)
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


@pytest.mark.parametrize("line", IN_SHELLS)
def test_fish_completes_a_command_line_with_the_documented_line(line: str) -> None:
    script = LINES["fish"].replace("\\|", "|") + f"\ncomplete --do-complete '{line}'\n"
    found = {each.split("\t")[0] for each in run(installed("fish"), "--no-config", "-c", script).splitlines()}
    assert found == WORDS[line]
