"""Tests of Apache Kafka's own Java admin client, producer and consumer: `JavaChecks.java`, which runs in one JVM.

When a check prints "kill", a second broker is killed and restarted. One byte on standard input reports the restart.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.interop.group_scenarios import SHORT_SESSIONS, SOON
from tests.interop.java_tools import SHORT_LIVED_JVM
from tools.broker_process import BrokerProcess

CHECKS = Path(__file__).with_name("JavaChecks.java")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ENDINGS = {
    "idempotent producer, ": CODECS,
    "producer without idempotence, acks=": ("0", "1", "all"),
    "members share partitions and take over from a closed one, ": ("RangeAssignor", "CooperativeStickyAssignor"),
    "members continue after a member stops and the broker is killed, ": ("classic", "consumer"),
    "a copy is exact although the broker is killed, ": ("classic", "consumer"),
}
RUN_SECONDS_MAX = 280

pytestmark = pytest.mark.timeout(RUN_SECONDS_MAX + 10)


def names() -> list[str]:
    """Return the names of the checks in the source, so that pytest can collect them before a JVM runs."""
    found = re.findall(r'check\("([^"]+)"', CHECKS.read_text())
    return [name + ending for name in found for ending in ENDINGS.get(name, ("",))]


@pytest.fixture(scope="module")
def killable_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Yield a broker with short session timeouts that may be killed."""
    directory = tmp_path_factory.mktemp("mortal")
    broker = BrokerProcess(directory, "--data-dir", str(directory / "data"), *SHORT_SESSIONS, *SOON)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def results(java: str, kafka_jars: Path, bootstrap: str, killable_broker: BrokerProcess) -> Mapping[str, str]:
    """Map each check to its failure, which is empty if the check passed."""
    options = ["-Xmx256M", *SHORT_LIVED_JVM, "-cp", f"{kafka_jars}/*"]
    command = [java, *options, str(CHECKS), bootstrap, killable_broker.address]
    output = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    ) as run:
        patience = threading.Timer(RUN_SECONDS_MAX, run.kill)
        patience.start()
        assert run.stdout is not None
        assert run.stdin is not None
        for line in run.stdout:
            output.append(line)
            if line == "kill\n":
                killable_broker.restart()
                run.stdin.write("\n")
        patience.cancel()
    assert run.returncode == 0, "".join(output)
    found = (re.fullmatch(r"(?:ok|not ok) ([^:]+)(?:: (.*))?\n", line) for line in output)
    return {one[1]: one[2] or "" for one in found if one}


@pytest.mark.parametrize("name", names())
def test_a_check_with_kafkas_java_clients_passes(results: Mapping[str, str], name: str) -> None:
    assert results[name] == ""
