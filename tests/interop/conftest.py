"""Fixtures for tests with real clients: a broker in its own process, and Apache Kafka's jars."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka.net import selector
from kafka.net.inet import KafkaNetSocket

from tests.interop.group_scenarios import SOON
from tests.interop.java_tools import SHORT_LIVED_JVM, ToolsJvm
from tests.interop.kafka_cluster import KafkaCluster
from tests.interop.target import Target
from tools import kafka_jars
from tools.broker_process import PYKBROKER, BrokerProcess

JAVA_VERSION_MIN = 17

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell starts background processes with SIGINT ignored, and brokers would inherit that from such a test run."""

for variable in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(variable, " ".join(SHORT_LIVED_JVM))


class CollectedSocket(socket.socket):
    """A socket of kafka-python, which leaves those of failed connections and constructors to the garbage collector.

    The collector would warn of such a socket in the middle of any later test.
    """

    def __del__(self) -> None:
        self.close()


def collected_pair() -> tuple[CollectedSocket, CollectedSocket]:
    one, other = socket.socketpair()
    return CollectedSocket(fileno=one.detach()), CollectedSocket(fileno=other.detach())


@pytest.fixture(autouse=True, scope="session")
def collected_sockets() -> Iterator[None]:
    """Give kafka-python sockets that the garbage collector closes without a warning."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KafkaNetSocket, "socket", lambda _self, *arguments: CollectedSocket(*arguments))
        patch.setattr(selector, "socket", SimpleNamespace(socketpair=collected_pair))
        yield


@pytest.fixture
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., BrokerProcess]]:
    """Yield `start_broker(*options)`, which starts a broker on an empty data directory and stops it after the test.

    The arguments are options of `pykbroker start`, as in `start_broker("--memory")`. `program` replaces the command.
    """
    brokers = []

    def start(*options: str, program: Sequence[str] = PYKBROKER) -> BrokerProcess:
        directory = tmp_path_factory.mktemp("broker")
        if "--data-dir" not in options and "--memory" not in options and "log.dirs" not in " ".join(options):
            options = ("--data-dir", str(directory / "data"), *options)
        broker = BrokerProcess(directory, *options, program=program)
        brokers.append(broker)
        broker.start()
        return broker

    yield start
    for broker in brokers:
        broker.kill()


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """Return a broker with its own data directory: `.address`, `.stop()`, `.kill()`, `.restart()`."""
    return start_broker()


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Yield one in-memory broker for all tests of a file. Each test uses its own topics and groups."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), "--memory", *SOON)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Return the address of the broker that the tests of a file share.

    `PYKBROKER_TEST_BOOTSTRAP` replaces this address. Running the tests with Apache Kafka's address checks the tests
    themselves.
    """
    other = os.environ.get("PYKBROKER_TEST_BOOTSTRAP")
    return other or request.getfixturevalue("shared_broker").address


@pytest.fixture(scope="session")
def kafka_nodes(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Yield three nodes of Apache Kafka, for all tests of our own client."""
    cluster = KafkaCluster(tmp_path_factory.mktemp("kafka"), kafka_jars)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def jvm(java: str, kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolsJvm]:
    """Yield the JVM of Kafka's tools."""
    with ToolsJvm(java, kafka_jars, tmp_path_factory.mktemp("tools")) as running:
        yield running


@pytest.fixture(params=["pykbroker", "kafka"])
def target(request: pytest.FixtureRequest) -> Target:
    """Return a cluster of each kind."""
    if request.param == "kafka":
        nodes: KafkaCluster = request.getfixturevalue("kafka_nodes")
        return Target(",".join(f"{host}:{port}" for host, port in nodes.bootstrap), 3)
    return Target(request.getfixturevalue("shared_broker").address, 1)


@cache
def why_no_java() -> str | None:
    """Return what is missing to run Java clients, or None."""
    if shutil.which("java") is None:
        return "Java is not installed"
    output = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True, timeout=30).stderr
    version = re.search(r'version "(\d+)', output)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        return f"Java {JAVA_VERSION_MIN} is needed, found: {output.splitlines()[0]}"
    return None


@cache
def fetched_jars() -> Path | str:
    """Fetch Apache Kafka's jars once per session; return their directory, or the reason why they are missing."""
    try:
        return why_no_java() or kafka_jars.fetch()
    except kafka_jars.NoJars as error:
        return str(error)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch the jars before the first test, since Maven may take longer than the timeout of a test."""
    if any("kafka_jars" in getattr(item, "fixturenames", ()) for item in session.items):
        fetched_jars()


@pytest.fixture(scope="session", name="java")
def java_fixture() -> str:
    """Return the path of `java`, version 17 or newer; skip the test with a reason if there is none."""
    if reason := why_no_java():
        pytest.skip(reason)
    return "java"


@pytest.fixture(scope="session", name="kafka_jars")
def kafka_jars_fixture(java: str) -> Path:
    """Return the directory of Apache Kafka's clients and tools, for `java -cp {kafka_jars}/* ...`."""
    jars = fetched_jars()
    if isinstance(jars, str):
        pytest.skip(jars)
    return jars
