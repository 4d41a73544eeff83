"""Tests of ACLs with kafka-python and confluent-kafka: their admin clients change them, and their producers obey."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
)
from confluent_kafka.admin import ResourceType as ConfluentType
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    NewTopic,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import TopicAuthorizationFailedError

from tests.interop.scenarios import PATIENCE_S
from tools.broker_process import BrokerProcess, set_options

CONFIGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


class Client(Protocol):
    """A client that creates and deletes the ACLs of one topic, all of which allow to write."""

    def allow(self, topic: str, *principals: str) -> None: ...

    def allowed(self, topic: str) -> set[str]:
        """Return the principals of the ACLs."""

    def forbid(self, topic: str, principal: str) -> int:
        """Delete the ACL of a principal; return the number of deleted ACLs."""

    def may_produce(self, topic: str) -> bool: ...

    def close(self) -> None: ...


class KafkaPython:
    """The `Client` of kafka-python."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._admin = KafkaAdminClient(bootstrap_servers=address)

    def allow(self, topic: str, *principals: str) -> None:
        pattern = ResourcePattern(ResourceType.TOPIC, topic, ACLResourcePatternType.LITERAL)
        acls = [ACL(user, "*", ACLOperation.WRITE, ACLPermissionType.ALLOW, pattern) for user in principals]
        assert len(self._admin.create_acls(acls)["succeeded"]) == len(principals)

    def _filter(self, topic: str, principal: str | None) -> ACLFilter:
        pattern = ResourcePatternFilter(ResourceType.TOPIC, topic, ACLResourcePatternType.MATCH)
        return ACLFilter(principal, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)

    def allowed(self, topic: str) -> set[str]:
        return {acl.principal for acl in self._admin.describe_acls(self._filter(topic, None))[0]}

    def forbid(self, topic: str, principal: str) -> int:
        ((_, deleted, _),) = self._admin.delete_acls([self._filter(topic, principal)])
        return len(deleted)

    def may_produce(self, topic: str) -> bool:
        producer = KafkaProducer(bootstrap_servers=self._address, retries=0)
        try:
            producer.send(topic, b"v").get(PATIENCE_S)
        except TopicAuthorizationFailedError:
            return False
        finally:
            producer.close()
        return True

    def close(self) -> None:
        self._admin.close()


class ConfluentKafka:
    """The `Client` of confluent-kafka."""

    def __init__(self, address: str) -> None:
        self._settings = {"bootstrap.servers": address}
        self._admin = AdminClient(self._settings)

    def allow(self, topic: str, *principals: str) -> None:
        kind = ConfluentType.TOPIC, topic, ResourcePatternType.LITERAL
        acls = [AclBinding(*kind, user, "*", AclOperation.WRITE, AclPermissionType.ALLOW) for user in principals]
        for done in self._admin.create_acls(acls).values():
            done.result(PATIENCE_S)

    def _filter(self, topic: str, principal: str | None) -> AclBindingFilter:
        kind = ConfluentType.TOPIC, topic, ResourcePatternType.MATCH
        return AclBindingFilter(*kind, principal, None, AclOperation.ANY, AclPermissionType.ANY)

    def allowed(self, topic: str) -> set[str]:
        return {acl.principal for acl in self._admin.describe_acls(self._filter(topic, None)).result(PATIENCE_S)}

    def forbid(self, topic: str, principal: str) -> int:
        (done,) = self._admin.delete_acls([self._filter(topic, principal)]).values()
        return len(done.result(PATIENCE_S))

    def may_produce(self, topic: str) -> bool:
        errors: list[Any] = []
        producer = confluent_kafka.Producer(self._settings)
        producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(PATIENCE_S) == 0
        (error,) = errors
        assert error is None or error.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
        return error is None

    def close(self) -> None:
        """Do nothing: the garbage collector ends the threads of librdkafka."""


@pytest.fixture(scope="module")
def authorizing_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("acls"), "--memory", "--log-format", "json", *set_options(CONFIGS))
    broker.start()
    yield broker
    broker.kill()


def obey(client: Client, topic: str) -> None:
    """Check that the producer may write whenever an ACL allows it, or none names the topic."""
    assert client.may_produce(topic)
    client.allow(topic, "User:alice", "User:ANONYMOUS")
    assert client.may_produce(topic)
    assert client.forbid(topic, "User:ANONYMOUS") == 1
    assert client.allowed(topic) == {"User:alice"}
    assert not client.may_produce(topic)
    assert client.forbid(topic, "User:alice") == 1
    assert client.may_produce(topic)


@pytest.mark.parametrize("new_client", [KafkaPython, ConfluentKafka])
def test_an_acl_of_another_principal_denies_until_it_is_deleted(
    authorizing_broker: BrokerProcess, new_client: Callable[[str], Client]
) -> None:
    address, topic = authorizing_broker.address, f"topic-of-{new_client.__name__}"
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    with contextlib.closing(new_client(address)) as client:
        obey(client, topic)
    audited = [json.loads(line) for line in authorizing_broker.output().splitlines() if "authorizer.logger" in line]
    denied = [line["message"] for line in audited if f"Topic:LITERAL:{topic} for request = " in line["message"]]
    start = "Principal = User:ANONYMOUS is Denied operation = "
    assert denied
    assert all(line.startswith(start) and line.endswith("based on rule DefaultDeny") for line in denied)
    warned = [line for line in authorizing_broker.output().splitlines() if "missing_rights" in line]
    assert any(f"to allow it: pykbroker acls allow ANONYMOUS DESCRIBE --topic {topic}" in line for line in warned)
