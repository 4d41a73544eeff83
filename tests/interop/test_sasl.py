"""Tests of clients that log in by SASL, on one broker with a listener for each thing that a listener may set."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import SaslAuthenticationFailedError

from pykbroker.cli.kafka_tools.__main__ import main
from pykbroker.cli.main import pykbroker
from pykbroker.client.errors import AuthenticationError
from pykbroker.consumer import AsyncConsumer
from pykbroker.kafka import KafkaProducer as DropIn
from pykbroker.producer import AsyncProducer
from tests.interop.group_scenarios import SOON
from tests.interop.raw_client import RawClient
from tests.interop.scenarios import eventually
from tools.broker_process import BrokerProcess
from wire.error_codes import ErrorCode
from wire.messages.metadata import MetadataRequest, MetadataResponse
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

PLAIN_LINE = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' user_alice="alice-canary" user_bob="b=o, \\"canary\\"" ;'
)
SESSION_MS = 1300
"""Clients authenticate again after 85 % of it, and a broker refuses that within 1 s of the last time."""
CONFIGS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.clients.plain.sasl.jaas.config": PLAIN_LINE,
    "listener.name.clients.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "listener.name.short.plain.sasl.jaas.config": PLAIN_LINE,
    "listener.name.short.plain.connections.max.reauth.ms": str(SESSION_MS),
    "inter.broker.listener.name": "PLAINTEXT",
}
ONE_BROKER = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}
USERS = [
    ("PLAIN", "alice", "alice-canary"),
    ("PLAIN", "bob", 'b=o, "canary"'),
    ("SCRAM-SHA-256", "carol", "carol-canary"),
    ("SCRAM-SHA-512", "dave", "dave canary"),
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Yield a broker whose directory is formatted with the credentials of carol and dave."""
    home = tmp_path_factory.mktemp("secured")
    file, data = home / "server.properties", home / "data"
    configs = {**CONFIGS, "node.id": "1", "log.dirs": str(data), **ONE_BROKER}
    file.write_text("".join(f"{name}={value}\n" for name, value in configs.items()).replace("\\", "\\\\"))
    added = ("SCRAM-SHA-256=[name=carol,password=carol-canary]", 'SCRAM-SHA-512=[name="dave",password=dave canary]')
    words = ["kafka-storage", "format", "-c", str(file), "-t", "8BhzD8bPTOKa0mC0mKnYTw"]
    assert main([*words, *(word for each in added for word in ("--add-scram", each))]) == 0
    listen = [option for name in ("CLIENTS", "SHORT") for option in ("--listen", f"{name}=127.0.0.1:0")]
    broker = BrokerProcess(
        home, "--config", str(file), *SOON, *listen, "--log-level", "debug", "--console", "127.0.0.1:0"
    )
    broker.start()
    yield broker
    broker.kill()
    assert "canary" not in broker.stdout.read_text() + broker.stderr.read_text()


@pytest.fixture
def clients(secured: BrokerProcess) -> str:
    """Return the address of the listener CLIENTS."""
    return str(secured.announced.listeners["CLIENTS"])


def of_librdkafka(address: str, mechanism: str, user: str, password: str) -> dict[str, Any]:
    """Return the configs of a client of confluent-kafka."""
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


def of_python(address: str, mechanism: str, user: str, password: str) -> dict[str, Any]:
    """Return the arguments of a client of kafka-python or aiokafka."""
    return {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def of_java(address: str, mechanism: str, user: str, password: str) -> dict[str, Any]:
    """Return the settings of a client of ours, with the names of Java's clients."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    quoted = password.replace('"', r"\"")
    jaas = f'org.apache.kafka.common.security.{module} required username="{user}" password="{quoted}";'
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas,
    }


def upsert(mechanism: ScramMechanism, user: str, password: str) -> UserScramCredentialUpsertion:
    return UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())


def test_a_change_of_a_credential_holds_for_the_next_log_in(clients: str) -> None:
    admin = AdminClient(of_librdkafka(clients, *USERS[0]))
    carol: Any = of_python(clients, *USERS[2])
    before = KafkaProducer(**carol)
    of_carol, of_dave = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
    changed = [upsert(of_carol, "carol", "other"), upsert(of_dave, *USERS[3][1:])]
    for done in admin.alter_user_scram_credentials(changed).values():
        done.result(10)
    described = admin.describe_user_scram_credentials().result(10)
    assert {
        user: [(info.mechanism, info.iterations) for info in found.scram_credential_infos]
        for user, found in described.items()
    } == {"carol": [(of_carol, 4096)], "dave": [(of_dave, 4096)]}
    assert before.send("changed", b"the open connection stays").get(10).offset == 0
    before.close()
    KafkaAdminClient(**{**carol, "sasl_plain_password": "other"}).close()
    for done in admin.alter_user_scram_credentials([upsert(of_carol, *USERS[2][1:])]).values():
        done.result(10)


@pytest.mark.parametrize(("mechanism", "user", "password"), [USERS[1], USERS[3]])
def test_clients_of_all_libraries_write_and_read(clients: str, mechanism: str, user: str, password: str) -> None:
    topic = f"written-{mechanism}-{user}"
    python: Any = of_python(clients, mechanism, user, password)
    confluent = of_librdkafka(clients, mechanism, user, password)
    producer = KafkaProducer(**python)
    producer.send(topic, b"kafka-python").get(10)
    producer.close()
    other = Producer(confluent)
    other.produce(topic, b"confluent-kafka")
    assert other.flush(10) == 0

    async def third() -> list[bytes]:
        async with AIOKafkaProducer(**python) as sender:
            await sender.send_and_wait(topic, b"aiokafka")
        own = DropIn(**python)
        own.send(topic, b"pykbroker").get(10)
        own.close()
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **python) as reader:
            return [(await asyncio.wait_for(reader.getone(), 10)).value for _ in range(4)]

    written = [b"kafka-python", b"confluent-kafka", b"aiokafka", b"pykbroker"]
    assert asyncio.run(third()) == written
    reader: Any = KafkaConsumer(
        topic, group_id=f"{topic}-p", auto_offset_reset="earliest", consumer_timeout_ms=10_000, **python
    )
    assert [next(reader).value for _ in written] == written
    reader.close()
    java = of_java(clients, mechanism, user, password)

    async def own_reader() -> list[bytes | None]:
        async with AsyncConsumer(topic, group_id=f"{topic}-o", auto_offset_reset="earliest", **java) as found:
            return [(await asyncio.wait_for(found.getone(), 10)).value for _ in written]

    assert asyncio.run(own_reader()) == written
    group = Consumer({**confluent, "group.id": f"{topic}-c", "auto.offset.reset": "earliest"})
    group.subscribe([topic])
    found = [message.value() for message in group.consume(4, timeout=15)]
    group.close()
    assert found == written


def test_our_clients_with_a_wrong_password_are_told_so(secured: BrokerProcess, clients: str) -> None:
    text = "Authentication failed: Invalid username or password"
    own = of_java(clients, "PLAIN", "alice", "wrong-canary")

    async def start_ours() -> None:
        async with AsyncProducer(**own) as sender:
            with pytest.raises(AuthenticationError, match=text):
                await sender.send_and_wait("refused", b"x")
        async with AsyncConsumer("refused", **own) as reader:
            with pytest.raises(AuthenticationError, match=text):
                await reader.getone()

    asyncio.run(start_ours())
    drop_in: Any = DropIn(**of_python(clients, "PLAIN", "alice", "wrong-canary"))
    with pytest.raises(SaslAuthenticationFailedError, match=text):
        drop_in.send("refused", b"x").get(10)
    drop_in.close()
    assert "its log-in by PLAIN failed: Authentication failed: Invalid username" in secured.stderr.read_text()


def test_a_client_without_sasl_is_not_served(clients: str) -> None:
    with RawClient(clients) as raw, pytest.raises(ConnectionError):
        raw.call(MetadataResponse, MetadataRequest(topics=[]), 9)


def test_clients_of_a_listener_with_short_sessions_authenticate_again(secured: BrokerProcess) -> None:
    short = str(secured.announced.listeners["SHORT"])
    producer = Producer(of_librdkafka(short, *USERS[0]))
    failures: list[Any] = []

    def has_authenticated_again() -> bool:
        producer.produce("short", b"x", on_delivery=lambda error, _: failures.append(error))
        return producer.flush(10) == 0 and counted(secured, "successful_reauthentication") > 0

    eventually(has_authenticated_again)
    assert set(failures) == {None}
    assert counted(secured, "failed_reauthentication") == 0
    own = DropIn(**of_python(short, *USERS[0]))
    before = counted(secured, "successful_reauthentication")

    def has_renewed_its_session() -> bool:
        own.send("short", b"x").get(10)
        return counted(secured, "successful_reauthentication") > before

    eventually(has_renewed_its_session)
    own.close()
    with RawClient(short) as raw:
        raw.call(SaslHandshakeResponse, SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-canary")
        response = raw.call(SaslAuthenticateResponse, token, 2)
        assert (response.error_code, response.session_lifetime_ms) == (ErrorCode.NONE, SESSION_MS)

        def has_ended() -> bool:
            try:
                raw.call(MetadataResponse, MetadataRequest(topics=[]), 9)
            except ConnectionError:
                return True
            return False

        eventually(has_ended)


def counted(broker: BrokerProcess, name: str) -> float:
    """Return the sum of a counter of all listeners."""
    (address,) = re.findall(r"metrics on (http://[\d.:]+/metrics)", broker.output())
    with urllib.request.urlopen(address, timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(rf"^kafka_server_socket_server_metrics_{name}_total{{.*}} (\S+)$", text, re.MULTILINE)
    return sum(map(float, found))


def test_commands_connect_by_the_properties_of_a_java_client(clients: str, tmp_path: Path) -> None:
    good, wrong, other = (tmp_path / name for name in ("good", "wrong", "other"))
    for file, configs in (
        (good, of_java("", *USERS[0]) | {"acks": "all", "ssl.truststore.location": "/nowhere"}),
        (wrong, of_java("", "PLAIN", "alice", "wrong-canary")),
        (other, {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}),
    ):
        file.write_text("".join(f"{name}={value}\n" for name, value in configs.items() if value))

    def run(file: Path, *words: str, lines: str = "") -> tuple[int, str]:
        done = CliRunner().invoke(pykbroker, [*words, "-b", clients, "--client-config", str(file)], input=lines)
        return done.exit_code, done.output

    assert run(good, "topics", "create", "commanded")[0] == 0
    assert run(good, "produce", "commanded", "--partition", "0", lines="one\n")[0] == 0
    assert run(good, "consume", "commanded", "--from", "beginning", "--count", "1") == (0, "one\n")
    assert run(good, "wait")[0] == 0
    for command in (("topics", "list"), ("wait",), ("consume", "commanded"), ("produce", "commanded")):
        code, output = run(wrong, *command, lines="one\n")
        assert (code, "Authentication failed: Invalid username or password" in output) == (1, True), output
        assert "canary" not in output
        code, output = run(other, *command)
        assert (code, "mechanism='GSSAPI' is not supported" in output) == (1, True), output


def test_kafka_tools_connect_by_their_command_config(
    clients: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in of_java("", *USERS[2]).items() if value))
    words = ["--bootstrap-server", clients, "--command-config", str(file)]
    assert main(["kafka-topics", *words, "--create", "--topic", "tooled"]) == 0
    assert main(["kafka-console-consumer", *words, "--topic", "tooled", "--timeout-ms", "100"]) == 0
    file.write_text(file.read_text().replace("carol-canary", "wrong-canary"))
    capsys.readouterr()
    assert main(["kafka-topics", *words, "--list"]) == 1
    assert "Authentication failed during authentication due to invalid credentials" in capsys.readouterr().out
