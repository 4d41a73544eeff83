"""A broker by TLS 1.3 with users, ACLs and mutual TLS, and the users that its clients log in as.

Its configs are Kafka's, so that the same clients can be run against Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import trustme
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate

CURVE = trustme.KeyType.ECDSA
STORE_PASSWORD = "canary-store"
OPEN, CLOSED = "open-", "closed"
WAIT_S = 20
USED = {
    ResourceType.TOPIC: AclOperation.ALL,
    ResourceType.GROUP: AclOperation.READ,
    ResourceType.TRANSACTIONAL_ID: AclOperation.ALL,
}
"""The operation of users on all resources of a type whose names begin with `OPEN`."""


class LogIn(msgspec.Struct, frozen=True):
    """A log-in of a client. `name` begins with "good" if the broker accepts it, and with "bad" if it does not."""

    name: str
    mechanism: str
    user: str
    password: str

    @property
    def text(self) -> str:
        """Return the log-in as an argument of the programs in `secured_clients`."""
        return f"{self.name}={self.mechanism}={self.user}={self.password}"

    def java(self) -> dict[str, str]:
        """Return the properties of a Java client."""
        module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
        jaas = f'org.apache.kafka.common.security.{module} required username="{self.user}" password="{self.password}";'
        return {"security.protocol": "SASL_SSL", "sasl.mechanism": self.mechanism, "sasl.jaas.config": jaas}


ADMIN = LogIn("admin", "PLAIN", "admin", "canary-admin")
GOOD = (
    LogIn("good-PLAIN", "PLAIN", "alice", "canary-alice"),
    LogIn("good-SCRAM-SHA-256", "SCRAM-SHA-256", "carol", "canary-carol"),
    LogIn("good-SCRAM-SHA-512", "SCRAM-SHA-512", "dave", "canary-dave"),
)
BAD = (
    LogIn("bad-PLAIN", "PLAIN", "alice", "canary-wrong"),
    LogIn("bad-SCRAM-SHA-512", "SCRAM-SHA-512", "dave", "canary-wrong"),
)
LOG_INS = (*GOOD, *BAD)
MUTUAL_USER = "mona"


class Stores:
    """The certificates of a broker and its clients, as files in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory, authority = directory, trustme.CA(key_type=CURVE)
        self.authority = self._write("ca.pem", authority.cert_pem.bytes())
        self.broker = self._write("broker.p12", self._pkcs12(authority, "127.0.0.1", "localhost"))
        mona = authority.issue_cert("client", common_name=MUTUAL_USER, key_type=CURVE)
        self.mona = self._write("mona.p12", self._pkcs12_of(mona))
        stranger = trustme.CA(key_type=CURVE).issue_cert("client", common_name=MUTUAL_USER, key_type=CURVE)
        self.stranger = self._write("stranger.p12", self._pkcs12_of(stranger))

    def _pkcs12(self, authority: trustme.CA, *hosts: str) -> bytes:
        return self._pkcs12_of(authority.issue_cert(*hosts, key_type=CURVE))

    def _pkcs12_of(self, issued: trustme.LeafCert) -> bytes:
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        certificate = load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
        password = BestAvailableEncryption(STORE_PASSWORD.encode())
        return serialize_key_and_certificates(b"own", key, certificate, None, password)  # type: ignore[arg-type]

    def _write(self, name: str, content: bytes) -> str:
        path = self._directory / name
        path.write_bytes(content)
        return str(path)

    def configs(self) -> dict[str, str]:
        """Return the configs of a broker with the listeners CLIENTS and MUTUAL."""
        users = " ".join(f'user_{each.user}="{each.password}"' for each in (ADMIN, GOOD[0]))
        jaas = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_SSL,MUTUAL:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.clients.plain.sasl.jaas.config": jaas,
            "listener.name.clients.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.clients.scram-sha-512.sasl.jaas.config": scram,
            "ssl.enabled.protocols": "TLSv1.3",
            "ssl.keystore.location": self.broker,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.truststore.location": self.authority,
            "ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+),.*$/$1/,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }

    def confluent(self, address: str, log_in: LogIn) -> dict[str, str | int]:
        """Return the configs of confluent-kafka."""
        return {
            "bootstrap.servers": address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority,
            "sasl.mechanism": log_in.mechanism,
            "sasl.username": log_in.user,
            "sasl.password": log_in.password,
            "log_level": 0,
        }

    def python(self, address: str, log_in: LogIn) -> dict[str, str]:
        """Return the arguments of kafka-python."""
        return {
            "bootstrap_servers": address,
            "security_protocol": "SASL_SSL",
            "ssl_cafile": self.authority,
            "sasl_mechanism": log_in.mechanism,
            "sasl_plain_username": log_in.user,
            "sasl_plain_password": log_in.password,
        }

    def java(self, address: str, log_in: LogIn) -> dict[str, str]:
        """Return the properties of a Java client that logs in."""
        return {"bootstrap.servers": address, **log_in.java(), **self._trust()}

    def java_mutual(self, address: str, keystore: str | None) -> dict[str, str]:
        """Return the properties of a Java client that shows a certificate of a PKCS12 file, or none."""
        shown = {
            "ssl.keystore.location": str(keystore),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.password": STORE_PASSWORD,
        }
        configs = {"bootstrap.servers": address, "security.protocol": "SSL", **self._trust()}
        return configs if keystore is None else configs | shown

    def _trust(self) -> dict[str, str]:
        return {"ssl.truststore.location": self.authority, "ssl.truststore.type": "PEM"}


def furnish(admin: AdminClient, topics: list[str], log_ins: Sequence[LogIn] = GOOD) -> None:
    """Create topics, the SCRAM credentials of log-ins, and the ACLs of their users and of `MUTUAL_USER`."""
    kinds = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
    credentials = [
        UserScramCredentialUpsertion(
            each.user, ScramCredentialInfo(kinds[each.mechanism], 4096), each.password.encode()
        )
        for each in log_ins
        if each.mechanism in kinds
    ]
    users = [MUTUAL_USER, *(each.user for each in log_ins)]
    acls = [
        AclBinding(kind, OPEN, ResourcePatternType.PREFIXED, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        for user in users
        for kind, operation in USED.items()
    ]
    created = admin.create_topics([NewTopic(name, 1, 1) for name in topics])
    for done in (created, admin.alter_user_scram_credentials(credentials), admin.create_acls(acls)):
        for future in done.values():
            future.result(WAIT_S)
