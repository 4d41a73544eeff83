"""Tests of the log-in of a node at other nodes: which configs it takes, and what is refused at a start."""

from __future__ import annotations

import pytest

from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import StartError
from pykbroker.core.security.peer_settings import peer_login
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.core.security.sasl.settings import PLAIN_MODULE, SCRAM_MODULE
from pykbroker.core.security.secret import Secret
from wire.error_codes import ErrorCode

OTHERS = ListenerSettings("Replication", protocol=SecurityProtocol.SASL_SSL)
MECHANISM = "sasl.mechanism.inter.broker.protocol"
AS_PLAIN = {MECHANISM: "PLAIN", "sasl.enabled.mechanisms": "PLAIN"}
PREFIX = "listener.name.replication."
PLAIN_LINE = f'{PLAIN_MODULE} required username="broker" password="canary" user_broker="canary" user_alice="a";'


def test_the_users_of_the_listener_are_in_the_same_line_as_the_user_of_the_node() -> None:
    texts = {**AS_PLAIN, f"{PREFIX}plain.sasl.jaas.config": PLAIN_LINE}
    found = peer_login(texts, OTHERS, MECHANISM)
    assert found is not None
    assert (found.mechanism, found.user, found.password) == ("PLAIN", "broker", Secret("canary"))
    assert "canary" not in repr(found)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_each_mechanism_has_a_line_of_its_own_and_each_kind_of_node_its_mechanism(mechanism: str) -> None:
    line = f'{SCRAM_MODULE} required username="node" password="other";'
    texts = {
        **AS_PLAIN,
        "sasl.mechanism.controller.protocol": mechanism,
        f"{PREFIX}plain.sasl.jaas.config": PLAIN_LINE,
        f"{PREFIX}{mechanism.lower()}.sasl.jaas.config": line,
    }
    found = peer_login(texts, OTHERS, "sasl.mechanism.controller.protocol")
    assert found is not None
    assert (found.mechanism, found.user, found.password) == (mechanism, "node", Secret("other"))


@pytest.mark.parametrize("protocol", [SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL])
def test_a_listener_without_sasl_needs_no_log_in(protocol: SecurityProtocol) -> None:
    assert peer_login({}, ListenerSettings("Replication", protocol=protocol), MECHANISM) is None


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (
            {},
            f"{MECHANISM}=GSSAPI: nodes connect to the listener Replication by SASL, and pykbroker has PLAIN,"
            f" SCRAM-SHA-256, SCRAM-SHA-512: write {MECHANISM}=SCRAM-SHA-512 or the like",
        ),
        (
            {MECHANISM: "SCRAM-SHA-256", "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512"},
            f"{MECHANISM}=SCRAM-SHA-256, and sasl.enabled.mechanisms of the listener Replication has PLAIN,"
            " SCRAM-SHA-512: write one of these, or add it",
        ),
        ({**AS_PLAIN, "sasl.jaas.config": PLAIN_LINE}, f"{PREFIX}plain.sasl.jaas.config is missing"),
        ({**AS_PLAIN, f"{PREFIX}plain.sasl.jaas.config": "a"}, f"{PREFIX}plain.sasl.jaas.config: the class of"),
    ],
)
def test_a_log_in_that_lacks_something_is_refused(texts: dict[str, str], sentence: str) -> None:
    with pytest.raises(StartError) as refused:
        peer_login(texts, OTHERS, MECHANISM)
    assert str(refused.value).startswith(sentence)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("mechanism", "line", "missing"),
    [
        ("SCRAM-SHA-256", None, "username and no password"),
        ("PLAIN", f'{PLAIN_MODULE} required username="a" user_a="b";', "password"),
    ],
)
def test_without_a_username_a_broker_starts_as_in_kafka_unless_it_needs_it_for_a_controller(
    mechanism: str, line: str | None, missing: str
) -> None:
    config, at_controllers = f"{PREFIX}{mechanism.lower()}.sasl.jaas.config", "sasl.mechanism.controller.protocol"
    texts = {MECHANISM: mechanism, at_controllers: mechanism, "sasl.enabled.mechanisms": mechanism}
    texts |= {} if line is None else {config: line}
    sentence = (
        f"{config} has no {missing}, with which this node logs in at other nodes: add"
        ' username="…" password="…" to the login module'
    )
    found = peer_login(texts, OTHERS, MECHANISM)
    assert found is not None
    assert found.lacks == sentence
    with pytest.raises(StartError) as refused:
        peer_login(texts, OTHERS, at_controllers)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            f": correct username and password in {PREFIX}plain.sasl.jaas.config, or add the user broker to the users of"
            " the other node",
        ),
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, f": set {MECHANISM} to one of them"),
        (None, ""),
    ],
)
def test_a_refused_log_in_says_what_to_do(code: ErrorCode | None, advice: str) -> None:
    found = peer_login({**AS_PLAIN, f"{PREFIX}plain.sasl.jaas.config": PLAIN_LINE}, OTHERS, MECHANISM)
    assert found is not None
    assert found.advice(code) == advice
