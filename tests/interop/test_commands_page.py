"""The commands of `docs/commands.md` and their output, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pykbroker.testing import running_cluster
from tests.interop.java_tools import agree, lines_of
from tools.broker_process import BrokerProcess

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
TEXT = PAGE.read_text()
OF_ONE_BROKER, OF_CLUSTER = TEXT.split("## Brokers and replicas\n")
PORTS = ("127.0.0.1:9092…", "127.0.0.1:9093…", "127.0.0.1:9094…")
COMMAND_S_MAX = 55
LIVE = re.compile(r"^\d+ s: .* records\n", re.MULTILINE)
"""The lines of a measurement that takes longer than a second."""

pytestmark = pytest.mark.timeout(180)


def runs(text: str) -> list[list[str]]:
    """Return the commands of the page with their outputs."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [part.split("\n", 1) for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]


def run(command: str, expected: str, bootstrap: str) -> None:
    """Run a command, and compare its output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "PYKBROKER_BOOTSTRAP": bootstrap}
    done = subprocess.run(["bash", "-c", command], env=environ, capture_output=True, text=True, timeout=COMMAND_S_MAX)
    output = done.stdout + LIVE.sub("", done.stderr)
    assert done.returncode == 0, f"{command}\n{output}"
    assert agree(lines_of(expected), lines_of(output)), f"$ {command}\n{output}instead of\n{expected}"


def test_each_command_prints_its_output(shared_broker: BrokerProcess) -> None:
    assert len(runs(TEXT)) == TEXT.count("\n$ ")
    assert len(runs(OF_ONE_BROKER)) > 10
    for command, expected in runs(OF_ONE_BROKER):
        run(command, expected, shared_broker.address)


def test_each_command_for_several_brokers_prints_its_output() -> None:
    assert len(runs(OF_CLUSTER)) > 5
    with running_cluster(3) as cluster:
        for command, expected in runs(OF_CLUSTER):
            for written, broker in zip(PORTS, cluster.brokers, strict=True):
                expected = expected.replace(written, cluster.address(broker))
            run(command, expected, cluster.bootstrap)
