"""Tests of one broker that serves plaintext, TLS, and TLS with certificates of its clients, with three clients."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import KafkaConsumer, KafkaProducer

from pykbroker.client.errors import AuthenticationError
from pykbroker.consumer import AsyncConsumer
from pykbroker.producer import AsyncProducer
from tools.broker_process import BrokerProcess

CURVE = trustme.KeyType.ECDSA
TIMEOUT_S = 20
VALUES = [bytes([number % 256]) * (1 + 997 * number % 5000) for number in range(300)]
SECURED, MUTUAL = "SSL", "MUTUAL"


class SecuredBroker:
    """A broker with a plaintext listener, one with TLS, and one that wants certificates, and what clients need."""

    def __init__(self, directory: Path, start_broker: Callable[..., BrokerProcess]) -> None:
        self._authority, self._directory = trustme.CA(key_type=CURVE), directory
        self.trusted = self._write("ca.pem", self._authority.cert_pem.bytes())
        self.client_store = self.store("client", "alice")
        self.process = start_broker(
            *("--memory", "--listen", "SSL=127.0.0.1:0", "--listen", "MUTUAL=127.0.0.1:0"),
            *("--set", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL"),
            *("--set", f"ssl.keystore.location={self.store('broker', '127.0.0.1')}"),
            *("--set", "ssl.keystore.type=PEM", "--set", "ssl.truststore.type=PEM"),
            *("--set", f"ssl.truststore.location={self.trusted}"),
            *("--set", "listener.name.mutual.ssl.client.auth=required", "--set", "ssl.allow.dn.changes=true"),
        )

    def _write(self, name: str, content: bytes) -> str:
        path = self._directory / name
        path.write_bytes(content)
        return str(path)

    def store(self, name: str, host: str) -> str:
        """Write a keystore with a new certificate for a host, and return its path."""
        issued = self._authority.issue_cert(host, key_type=CURVE)
        return self._write(f"{name}.pem", issued.private_key_and_cert_chain_pem.bytes())

    def address(self, listener: str) -> str:
        return str(self.process.announced.listeners[listener])

    def python(self, listener: str) -> dict[str, Any]:
        """Return the arguments of kafka-python and aiokafka."""
        context = ssl.create_default_context(cafile=self.trusted)
        if listener == MUTUAL:
            context.load_cert_chain(self.client_store)
        return {"bootstrap_servers": self.address(listener), "security_protocol": "SSL", "ssl_context": context}

    def java(self, listener: str, *, shows: bool = True) -> dict[str, Any]:
        """Return the settings of our clients, with the names of Java's."""
        configs = {
            "bootstrap.servers": self.address(listener),
            "security.protocol": "SSL",
            "ssl.truststore.location": self.trusted,
            "ssl.truststore.type": "PEM",
        }
        keys = {"ssl.keystore.location": self.client_store, "ssl.keystore.type": "PEM"}
        return configs | (keys if listener == MUTUAL and shows else {})

    def confluent(self, listener: str) -> dict[str, Any]:
        """Return the configs of confluent-kafka."""
        configs = {
            "bootstrap.servers": self.address(listener),
            "security.protocol": "SSL",
            "ssl.ca.location": self.trusted,
        }
        stores = ("ssl.certificate.location", "ssl.key.location")
        return configs | (dict.fromkeys(stores, self.client_store) if listener == MUTUAL else {})


@pytest.fixture
def secured(tmp_path: Path, start_broker: Callable[..., BrokerProcess]) -> SecuredBroker:
    return SecuredBroker(tmp_path, start_broker)


def with_kafka_python(broker: SecuredBroker, listener: str) -> list[bytes]:
    producer = KafkaProducer(**broker.python(listener))
    for value in VALUES:
        producer.send("kafka-python", value)
    producer.flush(TIMEOUT_S)
    producer.close()
    consumer: Any = KafkaConsumer("kafka-python", auto_offset_reset="earliest", **broker.python(listener))
    found = [next(consumer).value for _ in VALUES]
    consumer.close()
    return found


async def with_pykbroker(broker: SecuredBroker, listener: str) -> list[bytes | None]:
    topic = f"pykbroker-{listener}"
    async with AsyncProducer(**broker.java(listener)) as producer:
        for sent in [await producer.send(topic, value) for value in VALUES]:
            await sent
    async with AsyncConsumer(topic, auto_offset_reset="earliest", **broker.java(listener)) as consumer:
        return [(await consumer.getone()).value for _ in VALUES]


def with_confluent(broker: SecuredBroker, listener: str) -> list[bytes | None]:
    producer = Producer(broker.confluent(listener))
    for value in VALUES:
        producer.produce(listener, value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**broker.confluent(listener), "group.id": listener})
    consumer.assign([TopicPartition(listener, 0, 0)])
    found: list[bytes | None] = []
    while len(found) < len(VALUES):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    consumer.close()
    return found


async def send(topic: str, settings: dict[str, Any]) -> None:
    """Send a record by a producer of ours."""
    async with AsyncProducer(**settings) as producer:
        await producer.send_and_wait(topic, b"x")


async def with_aiokafka(broker: SecuredBroker, listener: str) -> list[bytes]:
    async with AIOKafkaProducer(**broker.python(listener)) as producer:
        for sent in [await producer.send("aiokafka", value) for value in VALUES]:
            await sent
    async with AIOKafkaConsumer("aiokafka", auto_offset_reset="earliest", **broker.python(listener)) as consumer:
        return [(await consumer.getone()).value for _ in VALUES]


def our_clients_say_why_tls_fails(secured: SecuredBroker) -> None:
    """Connect producers of ours that broker or client refuse."""
    java, stranger = secured.java(SECURED), trustme.CA(key_type=CURVE)
    named = java | {"bootstrap.servers": java["bootstrap.servers"].replace("127.0.0.1", "localhost")}
    unknown = java | {"ssl.truststore.certificates": stranger.cert_pem.bytes().decode()}
    del unknown["ssl.truststore.location"]
    for settings, text in (
        (named, "the broker's certificate is not for localhost: connect to a name that the certificate has"),
        (unknown, r"the broker's certificate is refused \(self-signed certificate in certificate chain\): trust"),
        (secured.java(MUTUAL, shows=False), "the broker refuses the certificate of this client, or misses it"),
    ):
        with pytest.raises(AuthenticationError, match=text):
            asyncio.run(send("refused", settings))
    checked = {"ssl.endpoint.identification.algorithm": "", "client.id": "unchecked"}
    asyncio.run(send("unchecked", named | checked))
    plain = java | {"bootstrap.servers": secured.address("PLAINTEXT")}
    with pytest.raises(AuthenticationError, match="the broker does not answer by TLS"):
        asyncio.run(send("refused", plain))


def test_clients_produce_and_consume_with_and_without_certificates(secured: SecuredBroker) -> None:
    assert with_kafka_python(secured, MUTUAL) == VALUES
    assert with_confluent(secured, SECURED) == VALUES
    assert with_confluent(secured, MUTUAL) == VALUES
    assert asyncio.run(with_aiokafka(secured, MUTUAL)) == VALUES
    for listener in (SECURED, MUTUAL):
        assert asyncio.run(with_pykbroker(secured, listener)) == VALUES
    our_clients_say_why_tls_fails(secured)

    # a store that cannot be read is refused, as in Kafka
    admin = AdminClient(secured.confluent(MUTUAL))
    with pytest.raises(KafkaException, match="ssl.keystore.location=/nowhere: No such file"):
        alter(admin, "listener.name.ssl.ssl.keystore.location", "/nowhere")

    # a new certificate is shown once the file and a config have changed; no connection needs to end for it
    host, port = secured.address(SECURED).split(":")
    before = ssl.get_server_certificate((host, int(port)))
    secured.store("broker", "127.0.0.1")
    alter(admin, "listener.name.ssl.ssl.keystore.type", "PEM")
    assert ssl.get_server_certificate((host, int(port))) != before

    # neither a client without a certificate nor one of another protocol gets in, and the log says why
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        unwelcome(secured, MUTUAL)
    with socket.create_connection((host, int(port)), TIMEOUT_S) as plain:
        plain.sendall(b"\0\0\0\x0e\0\x12\0\0\0\0\0\x01\0\x04test")
        assert plain.recv(1) == b""
    log = secured.process.output()
    assert "it shows no certificate, and ssl.client.auth is required" in log
    assert "it does not speak TLS, and the listener does" in log
    assert "Traceback" not in log


def alter(admin: AdminClient, name: str, value: str) -> None:
    """Set a config of the broker."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([change]).values():
        future.result(TIMEOUT_S)


def unwelcome(broker: SecuredBroker, listener: str) -> None:
    """Connect without a certificate, and read."""
    context = ssl.create_default_context(cafile=broker.trusted)
    host, port = broker.address(listener).split(":")
    with (
        socket.create_connection((host, int(port)), TIMEOUT_S) as sock,
        context.wrap_socket(sock, server_hostname=host) as secured,
    ):
        secured.recv(1)
