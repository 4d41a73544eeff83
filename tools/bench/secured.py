"""Brokers with a listener of each security protocol, all with the same config file, and the stage of their rows."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.interop.keystores import Keystores
from tools.bench.peers import SERVER_PROPERTIES, Broker, Peer, format_kafka, free_port
from tools.bench.row import Stage
from tools.bench.secured_callers import PASSWORD, USER, Security
from tools.broker_process import PYKBROKER

LISTENERS = """
listeners=PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{tls},SASL_SSL://127.0.0.1:{tls_login},\
SASL_PLAINTEXT://127.0.0.1:{login},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{tls},SASL_SSL://127.0.0.1:{tls_login},\
SASL_PLAINTEXT://127.0.0.1:{login}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,\
CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.enabled.protocols=TLSv1.3
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
"""
LOGIN = """listener.name.{listener}.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
listener.name.{listener}.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
"""
AUTHORIZER = """authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""
SECURABLE = ("pykbroker", "kafka")
"""The brokers that have listeners with TLS and SASL."""
ACL_USERS, ACL_TOPICS = 100, 100
ACLS_AT_ONCE = 1_000
ADMIN_TIMEOUT_S = 60


@dataclass(frozen=True)
class SecurityStage(Stage):
    """The brokers of a row about security: `broker` without an authorizer, and `guarded` with one and 10,000 ACLs."""

    guarded: Broker


def port_of(broker: Broker, security: Security) -> int:
    """Return the port of the listener that a client reaches so."""
    listener = f"{'SASL_' if security.mechanism else ''}{'SSL' if security.tls else 'PLAINTEXT'}"
    found = re.search(rf"[=,]{listener}://127\.0\.0\.1:(\d+)", properties_of(broker.directory).read_text())
    assert found is not None
    return int(found[1])


def properties_of(directory: Path) -> Path:
    """Return the path of the config file of a broker."""
    return directory / "server.properties"


def secured(peer: Peer, *, authorizes: bool) -> Peer:
    """Return a kind of broker with all listeners."""

    def prepare(directory: Path, port: int) -> None:
        keystore = Keystores(directory).keystore("broker")
        lines = [line for line in SERVER_PROPERTIES.splitlines() if "listeners=" not in line]
        text = "\n".join(lines) + LISTENERS
        for listener in ("sasl_ssl", "sasl_plaintext"):
            text += LOGIN.format(listener=listener, user=USER, password=PASSWORD)
        ports = {name: free_port() for name in ("tls", "login", "tls_login", "controller_port")}
        text = text.format(port=port, log_dirs=directory / "data", keystore=keystore, **ports)
        properties_of(directory).write_text(text + (AUTHORIZER if authorizes else ""))
        shutil.rmtree(directory / "data", ignore_errors=True)
        if peer.name == "kafka":
            format_kafka(properties_of(directory))

    return replace(peer, prepare=prepare, command=peer.command if peer.name == "kafka" else command)


def command(directory: Path, port: int) -> list[str]:
    """Return the command that runs this broker with Kafka's config file."""
    return [*PYKBROKER, "start", "--config", str(properties_of(directory))]


@contextlib.contextmanager
def secured_stages(
    peers: Sequence[Peer], scratch: Path, warm: Callable[[Broker], None] | None
) -> Iterator[list[SecurityStage]]:
    """Run both brokers of all peers at once, after `warm`."""
    with contextlib.ExitStack() as running:
        made = []
        for peer in peers:
            brokers = []
            for name, authorizes in (("secured", False), ("guarded", True)):
                kind = secured(peer, authorizes=authorizes)
                broker = kind.start(scratch / f"{peer.name}-{name}")
                running.callback(broker.stop)
                add_user(broker)
                if authorizes:
                    add_acls(broker)
                if warm is not None:
                    warm(broker)
                brokers.append(broker)
            made.append(SecurityStage(peer, brokers[0], scratch, brokers[1]))
        yield made


def add_user(broker: Broker) -> None:
    """Give the user of `secured_callers` a password for SCRAM-SHA-256."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    client = admin(broker)  # its requests end with it
    for future in client.alter_user_scram_credentials([upsertion]).values():
        future.result(ADMIN_TIMEOUT_S)


def add_acls(broker: Broker) -> None:
    """Let that user do everything with the topics of rows, and add 10,000 ACLs of others."""
    prefix = AclBinding(
        ResourceType.TOPIC,
        "bench-",
        ResourcePatternType.PREFIXED,
        f"User:{USER}",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    others = [
        AclBinding(
            ResourceType.TOPIC,
            f"topic-{topic}",
            ResourcePatternType.LITERAL,
            f"User:user-{user}",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        for user in range(ACL_USERS)
        for topic in range(ACL_TOPICS)
    ]
    acls, client = [prefix, *others], admin(broker)
    for begin in range(0, len(acls), ACLS_AT_ONCE):
        for future in client.create_acls(acls[begin : begin + ACLS_AT_ONCE]).values():
            future.result(ADMIN_TIMEOUT_S)


def admin(broker: Broker) -> AdminClient:
    """Return a client of the plaintext listener, which is a super user where there is an authorizer."""
    return AdminClient({"bootstrap.servers": broker.bootstrap})
