"""The clients and applications that pykbroker is tested with: the table of `docs/tested-with.md`.

A version is read from the file that pins it for the test or example. `python -m tools.document` writes the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tools import kafka_jars
from tools.examples import EXAMPLES, PROGRAMS

ROOT = Path(__file__).parent.parent
CONSTRAINTS = ROOT / "constraints.txt"

IN_CI: list[tuple[str, str | Path, str, tuple[str, ...]]] = [
    (
        "Apache Kafka's Java clients",
        kafka_jars.VERSION,
        "admin client, idempotent and transactional producers in every codec, groups of both protocols, "
        "an exact copy while the broker is killed",
        ("test_java_admin.py",),
    ),
    (
        "Apache Kafka's command line tools",
        kafka_jars.VERSION,
        "configs, groups and their offsets, transactions, console and verifiable clients, a dump of log files",
        ("test_java_tools.py", "test_compaction.py"),
    ),
    (
        "Apache Kafka's broker",
        kafka_jars.VERSION,
        "serves a data directory that pykbroker wrote, and pykbroker serves one that Kafka wrote",
        ("test_kafka_directories.py", "test_compaction.py"),
    ),
    (
        "kafka-python",
        CONSTRAINTS,
        "producer, consumer, groups, admin client, transactions, an exact copy while the broker is killed",
        ("test_kafka_python.py", "test_transactions.py", "test_exactly_once.py"),
    ),
    (
        "confluent-kafka",
        CONSTRAINTS,
        "producer, consumer, groups of both protocols and an upgrade from one to the other, admin client, "
        "transactions, exact copies while the broker is killed",
        ("test_confluent_kafka.py", "test_transactions.py", "test_exactly_once.py", "test_rolling_upgrade.py"),
    ),
    (
        "aiokafka",
        CONSTRAINTS,
        "producer, consumer, groups, admin client, transactions",
        ("test_aiokafka.py", "test_transactions.py"),
    ),
    (
        "pyspark",
        CONSTRAINTS,
        "batch and streaming queries, sinks in every codec, `read_committed`, a restart from a checkpoint, "
        "a crash of the broker during a stream",
        ("pipeline/test_spark.py",),
    ),
]
"""Clients that CI runs: the name, the version or the file that pins it, the features, and files of `tests/interop`."""

APPLICATIONS = {
    "faststream": ("FastStream", "faststream[kafka]"),
    "quix": ("Quix Streams", "quixstreams"),
    "kafka-streams": ("Kafka Streams", "kafka-streams"),
    "kafka-connect": ("Kafka Connect, standalone", "connect-runtime"),
    "mirrormaker": ("MirrorMaker 2", "connect-mirror"),
    "spring": ("Spring Boot with its Kafka starter", "spring-boot-starter-parent"),
    "flink": ("Apache Flink's Kafka connector", "flink-connector-kafka"),
    "node": ("KafkaJS", "kafkajs"),
    "go": ("franz-go", "github.com/twmb/franz-go"),
}
"""Applications that only an example tests: the name, and the package whose version the example pins."""


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield the rows of the table: the name, the version, the features used, and the test or example."""
    for name, source, does, tests in IN_CI:
        version = pinned(source, name) if isinstance(source, Path) else source
        yield name, version, does, "CI: " + ", ".join(f"[{test}](../tests/interop/{test})" for test in tests)
    for example in PROGRAMS:
        if example.directory in APPLICATIONS:
            name, package = APPLICATIONS[example.directory]
            link = f"[{example.directory}](../examples/{example.directory}/{example.file})"
            yield name, pinned(pins(example.directory), package), example.does, f"example: {link}"


def pins(directory: str) -> Path:
    """Return the file of an example's directory that pins versions."""
    names = ("requirements.txt", "pom.xml", "package.json", "go.mod")
    return next(path for name in names if (path := EXAMPLES / directory / name).exists())


def pinned(file: Path, package: str) -> str:
    """Return the exact version of a package in a file. ValueError: the file pins no exact version."""
    text = file.read_text()
    name = re.escape(package)
    if file.suffix == ".json":
        version = str(json.loads(text)["dependencies"].get(package, ""))
    else:
        spelt = {".xml": rf"<artifactId>{name}</artifactId>\s*<version>(.*)</version>", ".mod": rf"{name} v(\S+)"}
        found = re.search(spelt.get(file.suffix, rf"^{name}==(\S+)"), text, re.MULTILINE)
        version = found[1] if found else ""
    if not re.match(r"\d", version):
        raise ValueError(f"{file} pins no exact version of {package}")
    return version
