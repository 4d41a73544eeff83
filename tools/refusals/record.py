"""Record refusals.txt and rights.txt of tests/data/protocol: what Kafka refuses, and how.

Run it from the top of the checkout: python -m tools.refusals.record. It downloads Kafka's jars if they are missing.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from pykbroker.core.security.rights import RIGHTS
from tests.unit.wire.distinct import distinct
from tests.unit.wire.test_refusal import CODE, WHY
from tools import kafka_jars
from tools.bench.child import Child
from tools.bench.peers import free_port, wait_until_serving
from tools.refusals.matrix import CONFIGS, Matrix, plain_users
from tools.refusals.requests import versions_of
from wire.apis import APIS
from wire.compile import encoder

PROTOCOL = Path(__file__).parents[2] / "tests/data/protocol"
PROGRAM = Path(__file__).with_name("Refusals.java")
OF_KAFKA = {
    "process.roles": "broker,controller",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.name.controller.plain.sasl.jaas.config": plain_users(),
    "inter.broker.listener.name": "CLIENTS",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
}
"""The configs by which Kafka's broker and controller, which share a process, log in to each other."""


def main() -> None:
    """Write both files."""
    jars = kafka_jars.fetch()
    _record_responses(jars)
    _record_rights(jars)


def _record_responses(jars: Path) -> None:
    """Write the responses by which Kafka's classes of requests refuse requests."""
    lines = []
    for key in sorted(RIGHTS):
        kind = APIS[key].request
        for version in versions_of(key.name):
            parts: list[Any] = []
            encoder(kind, version)(distinct(kind, version), parts)
            lines.append(f"{CODE.name} {WHY} {key.name} {version} {b''.join(parts).hex()}\n")
    command = ["java", "-cp", f"{jars}/*", str(PROGRAM)]
    answers = subprocess.run(command, input="".join(lines), text=True, stdout=subprocess.PIPE, check=True).stdout
    title = (
        f"# API, version and body of the response that Kafka makes of tests/unit/wire/distinct.py for {CODE.name}, and"
        f" the body with the message {WHY!r} if it differs\n"
    )
    (PROTOCOL / "refusals.txt").write_text(title + answers)


def _record_rights(jars: Path) -> None:
    """Start Kafka, and write its answers to each principal."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        ports = {name: free_port() for name in ("PLAINTEXT", "CLIENTS", "CONTROLLER")}
        listeners = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        configs = {
            **CONFIGS,
            **OF_KAFKA,
            "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
            "controller.quorum.voters": f"1@{listeners['CONTROLLER']}",
            "log.dirs": str(home / "data"),
        }
        file = home / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in configs.items()))
        java = ["java", "-cp", f"{jars}/*"]
        words = ["format", "-t", "8BhzD8bPTOKa0mC0mKnYTw", "-c", str(file)]
        subprocess.run([*java, "kafka.tools.StorageTool", *words], check=True, capture_output=True)
        kafka = Child([*java, "kafka.Kafka", str(file)], home / "log")
        try:
            wait_until_serving(kafka, ports["PLAINTEXT"])
            with Matrix(listeners, one_by_one=True) as matrix:
                lines = list(matrix.lines())
        finally:
            kafka.kill()
    (PROTOCOL / "rights.txt").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
