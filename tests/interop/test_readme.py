"""Tests that run the Python examples of the README literally."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
SPARK, FIXTURE = "SparkSession", "kafka_broker"
CLIENTS = [block for block in BLOCKS if SPARK not in block and FIXTURE not in block]


def run(*arguments: str | Path) -> str:
    """Run a Python program; check that it exits with 0, and return its output."""
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=290)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_readme_has_every_kind_of_example():
    assert len(CLIENTS) >= 2
    assert len(BLOCKS) == len(CLIENTS) + 2


@pytest.mark.parametrize("block", CLIENTS, ids=[block.split()[1] for block in CLIENTS])
def test_a_client_example_prints_the_message_that_it_sent(shared_broker, block):
    sent = re.findall(r"b\"\w+\"", block)
    printed = run("-c", block.replace("127.0.0.1:9092", shared_broker.address))
    assert [printed.strip()] == [repr(eval(value)) for value in sent]  # noqa: S307 - the README's own


@pytest.mark.timeout(300)  # Spark starts a JVM, which may have to download its connector.
def test_the_spark_example_counts_the_rows_that_it_wrote(shared_broker, java):
    block = next(block for block in BLOCKS if SPARK in block)
    assert "100" in run("-c", block.replace("127.0.0.1:9092", shared_broker.address)).split()


def test_the_fixture_example_passes(tmp_path):
    example = tmp_path / "test_example.py"
    example.write_text(next(block for block in BLOCKS if FIXTURE in block))
    options = ["-p", "no:cacheprovider", f"--rootdir={tmp_path}", f"--confcutdir={tmp_path}", "-c", "/dev/null"]
    assert "1 passed" in run("-m", "pytest", *options, example)
