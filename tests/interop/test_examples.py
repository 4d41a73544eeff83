"""The programs of `examples/` and their output.

The Java, Node and Go examples fetch clients from package registries and run only if `PYKBROKER_TEST_ALL_EXAMPLES`
is set.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
GREETINGS = ["hello Ada", "hello Edsger", "hello Grace"]
ALL = "PYKBROKER_TEST_ALL_EXAMPLES"
FETCH_SECONDS_MAX = 280


def lines(directory: str, *command: str) -> list[str]:
    """Run a command in a directory of examples. Check that it exits with 0, and return the printed lines, sorted."""
    done = subprocess.run(command, cwd=EXAMPLES / directory, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(done.stdout.split("\n"))[1:]


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_greetings_are_read(shared_broker, client):
    assert lines(client, sys.executable, "greet.py", shared_broker.address) == GREETINGS


def test_only_the_committed_payment_is_read(shared_broker):
    assert lines("confluent-kafka", sys.executable, "transact.py", shared_broker.address) == ["20 to Grace"]


def test_the_pytest_example_passes():
    options = ["-p", "no:cacheprovider", "--rootdir=.", "-c", "/dev/null"]
    assert any("1 passed" in line for line in lines("pytest", sys.executable, "-m", "pytest", *options))


@pytest.mark.timeout(300)  # Spark starts a JVM, which may have to fetch its connector
def test_the_squares_are_summed(shared_broker, java):
    printed = lines("spark", sys.executable, "square.py", shared_broker.address)
    assert f"the sum of the squares is {sum(each * each for each in range(100))}" in printed


@pytest.mark.timeout(900)
@pytest.mark.skipif(ALL not in os.environ, reason=f"fetches clients from package registries: set {ALL}=1")
@pytest.mark.parametrize(
    ("directory", "prepare", "run"),
    [
        ("java", ["mvn", "-q", "-B", "compile"], ["mvn", "-q", "-B", "exec:java", "-Dexec.args={}"]),
        ("node", ["npm", "install", "--silent"], ["node", "greet.js", "{}"]),
        ("go", ["go", "build", "-o", os.devnull, "."], ["go", "run", ".", "{}"]),
    ],
    ids=["java", "node", "go"],
)
def test_the_examples_in_other_languages_read_greetings(shared_broker, directory, prepare, run):
    if shutil.which(prepare[0]) is None:
        pytest.skip(f"{prepare[0]} is not installed")
    lines(directory, *prepare)
    printed = lines(directory, *(word.format(shared_broker.address) for word in run))
    assert [line for line in printed if line in GREETINGS] == GREETINGS


def test_the_broker_of_the_workflow_answers(tmp_path):
    workflow = (EXAMPLES / "github-actions" / "kafka.yml").read_text()
    start, wait = re.findall(r"- run: (pykbroker .*)", workflow)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environ = {**os.environ, "PYKBROKER_LISTEN": address, "PYKBROKER_BOOTSTRAP": address}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    steps = f"{start}\n{wait}\npykbroker topics list\nkill $!\nwait $!"
    done = subprocess.run(["bash", "-ec", steps], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert f"The broker on {address} answers." in done.stdout
    assert re.search(r"^orders +3 ", done.stdout, re.MULTILINE)


def test_the_unit_of_systemd_starts_a_broker(start_broker, tmp_path):
    unit = (EXAMPLES / "systemd" / "pykbroker.service").read_text()
    (command,) = (line.split() for line in re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE))
    assert command[1:5] == ["start", "--listen", "127.0.0.1:9092", "--data-dir"]
    assert start_broker("--data-dir", str(tmp_path / "pykbroker")).stop() == 0
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: the unit is not verified")
    program = tmp_path / "bin" / "pykbroker"
    program.parent.mkdir()
    program.symlink_to("/bin/true")
    copy = tmp_path / "pykbroker.service"
    copy.write_text(unit.replace("/opt/pykbroker/bin", str(program.parent)))
    verified = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, timeout=50)
    assert "pykbroker" not in verified.stderr


def test_every_example_is_listed():
    listed = re.findall(r"^\| \[([\w-]+)\]", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
