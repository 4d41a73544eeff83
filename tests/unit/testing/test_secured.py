"""Tests of a broker for tests whose clients use TLS, log in, and may do what ACLs allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from pykbroker.core.errors import StartError
from pykbroker.testing import running_broker
from pykbroker.testing.log_in_settings import LogInSettings

USERS = {"alice": "secret", "bob": 'quo"te\\'}


def test_users_log_in_over_tls_and_only_the_first_may_do_everything(tmp_path: Path) -> None:
    with running_broker(tls=True, users=USERS, authorize=True, topics=["a"], data_dir=tmp_path) as broker:
        producer = KafkaProducer(**broker.kafka_python("alice"))
        assert producer.send("a", b"x").get(timeout=10).offset == 0
        producer.close()
        topic = broker.topic()
        broker.restart()
        found = AdminClient(broker.confluent("alice")).list_topics(timeout=10).topics
        assert found.keys() == {"a", topic}
        assert AdminClient(broker.confluent("bob")).list_topics(timeout=10).topics == {}
        broker.clear()
        assert AdminClient(broker.confluent("alice")).list_topics(timeout=10).topics.keys() == {"a"}


def test_each_client_gets_its_settings() -> None:
    settings = LogInSettings("h:1", "/ca.pem", USERS)
    common = {"bootstrap_servers": "h:1", "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256"}
    of_alice = {"sasl_plain_username": "alice", "sasl_plain_password": "secret"}
    assert settings.kafka_python("alice") == {**common, **of_alice, "ssl_cafile": "/ca.pem"}
    assert settings.java("bob") == {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="bob" password="quo\\"te\\\\";',
    }
    with pytest.raises(ValueError, match="no user 'carol': its users are 'alice', 'bob'"):
        settings.confluent("carol")
    with pytest.raises(ValueError, match="no user None: its users are"):
        settings.java(None)
    assert LogInSettings("h:1", None, USERS).aiokafka("alice") == {
        **common,
        **of_alice,
        "security_protocol": "SASL_PLAINTEXT",
    }
    open_one = LogInSettings("h:1", None, {})
    assert open_one.confluent(None) == {"bootstrap.servers": "h:1", "security.protocol": "PLAINTEXT"}
    assert open_one.kafka_python(None) == {"bootstrap_servers": "h:1", "security_protocol": "PLAINTEXT"}
    with pytest.raises(ValueError, match="start it with users="):
        open_one.aiokafka("alice")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tls": "auto"}, "tls is 'auto': write True or False"),
        ({"authorize": 1}, "authorize is 1: write True or False"),
        ({"users": ["alice"]}, "users is no dict"),
        ({"users": {"alice": ""}}, "users: 'alice' is no name in ASCII, or has no password"),
        ({"users": {"zoë": "secret"}}, "users: 'zoë' is no name in ASCII"),
        ({"users": {"u" * 32_763: "secret"}}, "users: a name has at most 32,762 characters"),
        ({"users": {"a;b": "secret"}, "authorize": True}, "users: a;b: the first user is a super user"),
        ({"authorize": True}, "authorize=True needs a user"),
    ],
)
def test_an_option_about_security_that_is_wrong_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(StartError, match=reason) as raised, running_broker(**options):
        pass
    assert "secret" not in str(raised.value).replace("{'alice': 'secret'}", "")
