"""Tests of clients in four languages on one broker by TLS 1.3, SASL and ACLs: what they read, and the errors they get.

The expected lines are those of the same programs with Kafka 4.3.1 and the same configs.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaTimeoutError

from tests.interop import secured_clients
from tests.interop.group_scenarios import SOON
from tests.interop.java_tools import SHORT_LIVED_JVM
from tests.interop.secured_broker import CLOSED, GOOD, LOG_INS, OPEN, LogIn, Stores, furnish
from tests.interop.secured_clients import python_clients
from tests.interop.test_franz_go import COMPILE_S_MAX, FAST_COMPILE
from tools.broker_process import BrokerProcess, set_options
from tools.kafka_jars import CACHE

PROGRAMS = Path(secured_clients.__file__).parent
EXAMPLE = Path(__file__).parents[2] / "examples" / "node" / "package.json"
RUN_S_MAX = 90
MUTUAL = "good-mutual"
ODD = LogIn("odd", "SCRAM-SHA-256", "e=q, c", "canary-odd")
"""A user whose name has the characters that SCRAM quotes."""
NO_PASSWORD = {
    "bad-PLAIN": "Authentication failed: Invalid username or password",
    "bad-SCRAM-SHA-512": (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
    ),
}
COPIES = [f"{log_in.name} copies: a b" for log_in in GOOD]
JAVA = [
    *COPIES,
    f"{MUTUAL} copies: a b",
    "good-PLAIN reads: TopicAuthorizationException: Not authorized to access topics: [closed]",
    "good-PLAIN sends: TopicAuthorizationException: Not authorized to access topics: [closed]",
    "good-PLAIN begins: TransactionalIdAuthorizationException: Transactional Id authorization failed.",
    "good-PLAIN joins: GroupAuthorizationException: Not authorized to access group: closed",
    "good-PLAIN creates: TopicAuthorizationException: Authorization failed.",
    *(
        f"{name} {action}: SaslAuthenticationException: {text}"
        for name, text in NO_PASSWORD.items()
        for action in ("begins", "joins", "creates")
    ),
    *(
        f"{name} {action}: SslAuthenticationException: Failed to process post-handshake messages"
        for name in ("bad-stranger", "bad-nothing")
        for action in ("begins", "joins", "creates")
    ),
]
LOGGED = (
    "its log-in by PLAIN failed: Authentication failed: Invalid username or password (user 'alice')",
    "its log-in by SCRAM-SHA-512 failed: the user is unknown, or the password is wrong (user 'dave')",
    "its certificate is refused (unable to get local issuer certificate)",
    "it shows no certificate, and ssl.client.auth is required: set ssl.keystore.location in the client",
)
REFUSED = [
    "good-PLAIN reads: TOPIC_AUTHORIZATION_FAILED",
    "good-PLAIN sends: TOPIC_AUTHORIZATION_FAILED",
    "good-PLAIN begins: TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "good-PLAIN joins: GROUP_AUTHORIZATION_FAILED",
]
GO = [
    *COPIES,
    *REFUSED,
    "good-PLAIN creates: TOPIC_AUTHORIZATION_FAILED",
    *(
        f"{name} {action}: SASL_AUTHENTICATION_FAILED"
        for name in NO_PASSWORD
        for action in ("sends", "begins", "creates")
    ),
]
NO_COORDINATOR = "KafkaJSGroupCoordinatorNotFound: Failed to find group coordinator"
NO_TOPIC = "TOPIC_AUTHORIZATION_FAILED: Not authorized to access topics: [Topic authorization failed]"
NODE = [
    *COPIES,
    *(f"good-PLAIN {action}: {NO_TOPIC}" for action in ("reads", "sends", "creates")),
    *(f"good-PLAIN {action}: {NO_COORDINATOR}" for action in ("begins", "joins")),
    *(
        f"{name} {action}: KafkaJSSASLAuthenticationError: SASL {mechanism} authentication failed: {text}"
        for mechanism, (name, text) in zip(("PLAIN", "SCRAM SHA512"), NO_PASSWORD.items(), strict=True)
        for action in ("sends", "begins", "joins", "creates")
    ),
]
CONFLUENT = [*COPIES, *REFUSED, *(f"{name} connects: _AUTHENTICATION" for name in NO_PASSWORD)]
KAFKA_PYTHON = [
    *COPIES,
    "good-PLAIN begins: TransactionalIdAuthorizationFailedError",
    "good-PLAIN joins: GroupAuthorizationFailedError",
    "good-PLAIN sends: TopicAuthorizationFailedError",
    "good-PLAIN creates: TopicAuthorizationFailedError",
    *(f"{name} creates: KafkaTimeoutError" for name in NO_PASSWORD),
]
AIOKAFKA = [
    *COPIES,
    "good-PLAIN begins: TransactionalIdAuthorizationFailed",
    "good-PLAIN joins: GroupAuthorizationFailedError",
    "good-PLAIN sends: TopicAuthorizationFailedError",
    *(f"{name} sends: KafkaConnectionError" for name in NO_PASSWORD),
]


class Secured:
    """A running broker, and the files that its clients need."""

    def __init__(self, home: Path) -> None:
        self.home, self.stores = home, Stores(home)
        listen = ("--listen", "CLIENTS=127.0.0.1:0", "--listen", "MUTUAL=127.0.0.1:0")
        self.process = BrokerProcess(home, "--memory", *listen, *SOON, *set_options(self.stores.configs()))
        self.process.start()

    def furnish(self) -> None:
        """Create topics, users and ACLs."""
        topics = [CLOSED, *(OPEN + name for name in (MUTUAL, *(log_in.name for log_in in GOOD)))]
        furnish(AdminClient({"bootstrap.servers": self.process.address}), topics, [*GOOD, ODD])

    def address(self, listener: str = "CLIENTS") -> str:
        return str(self.process.announced.listeners[listener])

    def arguments(self) -> list[str]:
        """Return the arguments of the programs in Go and JavaScript."""
        return [self.address(), self.stores.authority, *(log_in.text for log_in in LOG_INS)]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    broker = Secured(tmp_path_factory.mktemp("secured"))
    try:
        broker.furnish()
        yield broker
    finally:
        broker.process.kill()
    output = broker.process.output()
    assert "canary" not in output
    assert "Traceback" not in output


def lines_of(command: list[str], directory: Path) -> list[str]:
    """Run a program, and return the lines about its clients, sorted."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(re.findall("^(?:good|bad)-.*", done.stdout, re.MULTILINE))


def test_clients_of_java_read_or_get_the_errors_of_kafka(secured: Secured, java: str, kafka_jars: Path) -> None:
    stores, files = secured.stores, []
    clients = {log_in.name: stores.java(secured.address(), log_in) for log_in in LOG_INS}
    keystores = {MUTUAL: stores.mona, "bad-stranger": stores.stranger, "bad-nothing": None}
    clients |= {name: stores.java_mutual(secured.address("MUTUAL"), store) for name, store in keystores.items()}
    for name, configs in clients.items():
        file = secured.home / name
        file.write_text("".join(f"{config}={value}\n" for config, value in configs.items()))
        files.append(str(file))
    command = [java, "-Xmx256M", *SHORT_LIVED_JVM, "-cp", f"{kafka_jars}/*", str(PROGRAMS / "SecuredClient.java")]
    assert lines_of([*command, *files], secured.home) == sorted(JAVA)
    log = secured.process.output()
    assert all(text in log for text in LOGGED), log


@pytest.mark.timeout(COMPILE_S_MAX + RUN_S_MAX)
def test_clients_of_go_read_or_get_the_errors_of_kafka(secured: Secured) -> None:
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    program = str(secured.home / "secured")
    done = subprocess.run(
        ["go", "build", *FAST_COMPILE[1:], "-o", program, "."],
        cwd=PROGRAMS / "go",
        env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "auto"},
        capture_output=True,
        text=True,
        check=False,
        timeout=COMPILE_S_MAX,
    )
    assert done.returncode == 0, done.stderr
    assert lines_of([program, *secured.arguments()], secured.home) == sorted(GO)


def kafkajs() -> Path:
    """Return the directory with the library of the example for Node, which npm fetches once; skip without npm."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("Node is not installed")
    package = EXAMPLE.read_text()
    directory = CACHE / "node" / json.loads(package)["dependencies"]["kafkajs"]
    if not (directory / "node_modules").exists():
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "package.json").write_text(package)
        command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
        assert done.returncode == 0, done.stderr
    return directory


@pytest.mark.timeout(2 * RUN_S_MAX)
def test_clients_of_node_read_or_get_the_errors_of_kafka(secured: Secured) -> None:
    command = ["node", str(PROGRAMS / "client.js"), *secured.arguments()]
    assert lines_of(command, kafkajs()) == sorted(NODE)


def test_clients_of_confluent_kafka_read_or_get_the_errors_of_kafka(secured: Secured) -> None:
    assert sorted(python_clients.with_confluent(secured.stores, secured.address())) == sorted(CONFLUENT)


def test_clients_of_kafka_python_read_or_get_the_errors_of_kafka(secured: Secured) -> None:
    assert sorted(python_clients.with_kafka_python(secured.stores, secured.address())) == sorted(KAFKA_PYTHON)


def test_clients_of_aiokafka_read_or_get_the_errors_of_kafka(secured: Secured) -> None:
    assert sorted(asyncio.run(python_clients.with_aiokafka(secured.stores, secured.address()))) == sorted(AIOKAFKA)


def test_a_user_with_an_equals_sign_logs_in_by_scram_with_what_kafka_python_does_not_quote(secured: Secured) -> None:
    configs = secured.stores.python(secured.address(), ODD)
    with pytest.raises(KafkaTimeoutError):  # RFC 5802 has it quoted, and Kafka refuses it, too
        KafkaAdminClient(**configs, bootstrap_timeout_ms=500)
    quoted = ODD.user.replace("=", "=3D").replace(",", "=2C")
    KafkaAdminClient(**{**configs, "sasl_plain_username": quoted}).close()
    AdminClient(secured.stores.confluent(secured.address(), ODD)).list_topics(timeout=RUN_S_MAX)
