"""Tests of configs that name Java classes: a broker refuses to start without the authorizer that it cannot load."""

from __future__ import annotations

import pytest

from pykbroker.core.config.broker_change import check_broker_change
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.table import BROKER
from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode

GUARDS = (
    "alter.config.policy.class.name",
    "authorizer.class.name",
    "client.quota.callback.class",
    "create.topic.policy.class.name",
    "principal.builder.class",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.server.callback.handler.class",
    "ssl.engine.factory.class",
)
OF_LISTENERS = (
    "listener.name.plaintext.principal.builder.class",
    "listener.name.a.sasl.server.callback.handler.class",
    "listener.name.a.plain.sasl.server.callback.handler.class",
    "listener.name.a.scram-sha-256.sasl.login.class",
    "listener.name.a.ssl.engine.factory.class",
)
OF_KAFKA = {
    "sasl.login.class": "authenticator.DefaultLogin",
    "sasl.server.callback.handler.class": "plain.internals.PlainServerCallbackHandler",
    "ssl.engine.factory.class": "ssl.DefaultSslEngineFactory",
}
"""Classes that Kafka has without a config."""


@pytest.mark.parametrize("name", [*GUARDS, *OF_LISTENERS])
def test_a_java_class_is_refused_unless_it_is_ignored(name: str) -> None:
    with pytest.raises(ApiError) as refused:
        BrokerConfig.from_mapping({name: "com.example.Guard"})
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert str(refused.value) == (
        f"{name} is set to com.example.Guard. pykbroker loads no classes of Java, and would let through what such a "
        f"class may refuse. Remove the setting, or go on without the class by pykbroker.ignore.classes={name}"
    )
    BrokerConfig.from_mapping({name: "com.example.Guard", "pykbroker.ignore.classes": f"{name},other"})


@pytest.mark.parametrize("name", GUARDS)
def test_an_empty_name_and_kafkas_default_class_are_accepted(name: str) -> None:
    default = BROKER[name].default
    BrokerConfig.from_mapping({name: ""} if default is None else {name: str(default)})
    if default is not None:
        BrokerConfig.from_mapping({f"listener.name.a.{name}": str(default)})


@pytest.mark.parametrize(("name", "kafkas"), OF_KAFKA.items())
def test_a_class_that_kafka_has_without_the_config_is_accepted(name: str, kafkas: str) -> None:
    text = f"org.apache.kafka.common.security.{kafkas}"
    BrokerConfig.from_mapping({name: text, f"listener.name.a.{name}": text, f"listener.name.a.plain.{name}": text})


def test_the_error_names_every_refused_class() -> None:
    with pytest.raises(
        ApiError,
        match=(
            "^authorizer.class.name is set to A, sasl.login.class is set to B. .* "
            "by pykbroker.ignore.classes=authorizer.class.name,principal.builder.class,sasl.login.class$"
        ),
    ):
        BrokerConfig.from_mapping(
            {
                "sasl.login.class": "B",
                "authorizer.class.name": "A",
                "principal.builder.class": "C",
                "pykbroker.ignore.classes": "principal.builder.class",
            }
        )


@pytest.mark.parametrize(
    "name",
    [
        "replica.selector.class",
        "metric.reporters",
        "sasl.enabled.mechanisms",
        "listener.name.class",
        "listener.name.sasl.class",
        "my.own.class",
        "sasl.classes",
    ],
)
def test_classes_without_influence_on_security_are_ignored(name: str) -> None:
    BrokerConfig.from_mapping({name: "A"})


@pytest.mark.parametrize("of", ["1", ""])
@pytest.mark.parametrize("name", ["principal.builder.class", *OF_LISTENERS])
def test_a_dynamic_change_cannot_set_a_java_class_unless_it_is_ignored(name: str, of: str) -> None:
    broker = BrokerConfig.from_mapping({})
    with pytest.raises(ApiError, match="pykbroker.ignore.classes=") as refused:
        check_broker_change(of, {name: "A"}, broker)
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    check_broker_change("1", {name: "A"}, BrokerConfig.from_mapping({"pykbroker.ignore.classes": name}))
    check_broker_change("1", {name: "A"}, broker.with_dynamic({}, {name: "A"}))


def test_a_dynamic_change_of_a_read_only_class_config_is_refused_as_by_kafka() -> None:
    with pytest.raises(ApiError, match="Cannot update these configs dynamically") as refused:
        check_broker_change("1", {"authorizer.class.name": "A"}, BrokerConfig.from_mapping({}))
    assert refused.value.code == ErrorCode.INVALID_REQUEST
