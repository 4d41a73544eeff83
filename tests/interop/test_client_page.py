"""The examples of `docs/client.md` and `docs/consumer.md`, and their output."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.broker_process import BrokerProcess

TEXT = "".join((Path(__file__).parents[2] / "docs" / name).read_text() for name in ("client.md", "consumer.md"))
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)


def test_every_example_has_its_output() -> None:
    assert len(EXAMPLES) == TEXT.count("```python") > 8


@pytest.mark.parametrize(("program", "output"), EXAMPLES)
def test_an_example_prints_its_output(shared_broker: BrokerProcess, program: str, output: str) -> None:
    program = program.replace("127.0.0.1:9092", shared_broker.address)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout) == (0, output), done.stderr
