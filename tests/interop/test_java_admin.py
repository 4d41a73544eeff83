"""Apache Kafka's own admin client, producer and consumer against the broker: `JavaChecks.java`, in one JVM."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

CHECKS = Path(__file__).with_name("JavaChecks.java")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ENDINGS = {"idempotent producer, ": CODECS, "producer without idempotence, acks=": ("0", "1", "all"),
           "members share and hand over, ": ("RangeAssignor", "CooperativeStickyAssignor")}
RUN_SECONDS_MAX = 55


def names() -> list[str]:
    """Those that the source gives its checks, so that each is a test before a JVM has run."""
    found = re.findall(r'check\("([^"]+)"', CHECKS.read_text())
    return [name + ending for name in found for ending in ENDINGS.get(name, ("",))]


@pytest.fixture(scope="module")
def results(java: str, kafka_jars: Path, bootstrap: str) -> Mapping[str, str]:
    """What each check gave: nothing, or why it failed."""
    command = [java, "-Xmx256M", "-cp", f"{kafka_jars}/*", str(CHECKS), bootstrap]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_SECONDS_MAX)
    assert run.returncode == 0, run.stdout + run.stderr
    lines = (re.fullmatch(r"(?:ok|not ok) ([^:]+)(?:: (.*))?", line) for line in run.stdout.splitlines())
    return {line[1]: line[2] or "" for line in lines if line}


@pytest.mark.parametrize("name", names())
def test_java(results: Mapping[str, str], name: str) -> None:
    assert results[name] == ""
