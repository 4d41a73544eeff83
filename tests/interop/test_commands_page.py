"""The commands of `docs/commands.md` and their output, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.java_tools import agree, lines_of
from tools.broker_process import BrokerProcess

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
COMMAND_S_MAX = 55
LIVE = re.compile(r"^\d+ s: .* records\n", re.MULTILINE)
"""The lines of a measurement that takes longer than a second."""

pytestmark = pytest.mark.timeout(180)


def test_each_command_prints_its_output(shared_broker: BrokerProcess) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "PYKBROKER_BOOTSTRAP": shared_broker.address}
    runs = [part.split("\n", 1) for block in BLOCKS for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(runs) == PAGE.read_text().count("\n$ ") > 10
    for command, expected in runs:
        done = subprocess.run(
            ["bash", "-c", command], env=environ, capture_output=True, text=True, timeout=COMMAND_S_MAX
        )
        output = done.stdout + LIVE.sub("", done.stderr)
        assert done.returncode == 0, f"{command}\n{output}"
        assert agree(lines_of(expected), lines_of(output)), f"$ {command}\n{output}instead of\n{expected}"
