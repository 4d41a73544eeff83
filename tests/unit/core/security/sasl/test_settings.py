"""Tests of the settings of SASL on a listener."""

from __future__ import annotations

import pytest

from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import StartError
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.core.security.sasl.mechanism import AuthenticationFailed
from pykbroker.core.security.sasl.plain import Plain
from pykbroker.core.security.sasl.plain_by_scram import PlainByScram
from pykbroker.core.security.sasl.scram import Scram, UnknownUsers
from pykbroker.core.security.sasl.settings import PLAIN_MODULE, SCRAM_MODULE, sasl_listeners, sasl_settings
from pykbroker.core.security.secret import Secret

LISTENER = ListenerSettings("CLIENTS", protocol=SecurityProtocol.SASL_PLAINTEXT)
PREFIX = "listener.name.clients."
USERS = f'{PLAIN_MODULE} required user_alice="canary" user_bob="two" password="x";'
LINE = {PREFIX + "plain.sasl.jaas.config": USERS}
SCRAM = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}


def test_the_configs_of_a_listener_and_of_a_mechanism_come_first() -> None:
    settings = sasl_settings(
        {
            "sasl.enabled.mechanisms": "GSSAPI",
            PREFIX + "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,SCRAM-SHA-256",
            **LINE,
            PREFIX + "scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "connections.max.reauth.ms": "10",
            PREFIX + "connections.max.reauth.ms": "20",
            PREFIX + "plain.connections.max.reauth.ms": "30",
            PREFIX + "sasl.server.max.receive.size": "1000",
            "connection.failed.authentication.delay.ms": "0",
        },
        LISTENER,
    )
    assert settings.enabled == ("PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256")
    assert settings.users == {"alice": Secret("canary"), "bob": Secret("two")}
    assert settings.reauth_ms == {"PLAIN": 30, "SCRAM-SHA-512": 20, "SCRAM-SHA-256": 20}
    assert (settings.receive_bytes_max, settings.failure_delay_ms) == (1000, 0)
    assert "canary" not in repr(settings)
    made = settings.mechanisms(lambda of, user: None, lambda: UnknownUsers(b"secret"), b"key")
    assert [type(mechanism) for mechanism in made.values()] == [Plain, Scram, Scram]
    assert list(made) == list(settings.enabled)
    firsts = {made[name].begin("n").answer(b"n,,n=x,r=c").token for name in list(made)[1:]}
    assert len(firsts) == 2  # an unknown user has another salt for each mechanism
    with pytest.raises(AuthenticationFailed):
        made["PLAIN"].begin("").answer(b"\0alice\0two")


def test_the_limits_are_kafkas_without_a_config() -> None:
    settings = sasl_settings(SCRAM, LISTENER)
    assert (settings.receive_bytes_max, settings.failure_delay_ms) == (524_288, 100)
    assert (settings.reauth_ms, settings.users) == ({"SCRAM-SHA-256": 0}, {})


@pytest.mark.parametrize(
    ("options", "users"),
    [
        ('scram_users="true"', None),
        ("scram_users=TRUE", None),
        ("scram_users=no user_a=b", {"a": Secret("b")}),
        ("", {}),
    ],
)
def test_plain_has_users_of_its_own_or_those_of_scram(options: str, users: dict[str, Secret] | None) -> None:
    line = f"{USERS.partition('user_')[0]}{options};"
    texts = {"sasl.enabled.mechanisms": "PLAIN", PREFIX + "plain.sasl.jaas.config": line}
    settings = sasl_settings(texts, LISTENER)
    assert settings.users == users
    made = settings.mechanisms(lambda of, user: None, lambda: UnknownUsers(b""), b"key")["PLAIN"]
    assert type(made) is (PlainByScram if users is None else Plain)


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        ({}, "CLIENTS has GSSAPI, and pykbroker has PLAIN, SCRAM-SHA-256, SCRAM-SHA-512: write listener.name.clients."),
        ({"sasl.enabled.mechanisms": "plain"}, "has plain, and"),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                PREFIX + "plain.sasl.jaas.config": USERS.replace("required", "required scram_users=true"),
            },
            "plain.sasl.jaas.config has both scram_users and user_NAME: remove one of them",
        ),
        ({"sasl.enabled.mechanisms": ""}, "is empty"),
        ({"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER,X"}, "has OAUTHBEARER, X"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "plain.sasl.jaas.config is missing, which has the users of PLAIN"),
        ({"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": USERS}, "plain.sasl.jaas.config is missing"),
        (
            {"sasl.enabled.mechanisms": "PLAIN", PREFIX + "plain.sasl.jaas.config": USERS[:-1]},
            "plain.sasl.jaas.config: the login module does not end with ';'",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN", PREFIX + "plain.sasl.jaas.config": "a.b.C required user_a=canary;"},
            "names the class a.b.C, which pykbroker cannot load: write org.apache.kafka",
        ),
        ({**SCRAM, PREFIX + "scram-sha-256.sasl.jaas.config": USERS}, f"write {SCRAM_MODULE} required"),
    ],
)
def test_a_wrong_config_is_an_error_that_says_what_to_write(texts: dict[str, str], error: str) -> None:
    with pytest.raises(StartError) as raised:
        sasl_settings(texts, LISTENER)
    assert error in str(raised.value)
    assert "canary" not in str(raised.value)


def test_only_listeners_with_sasl_have_settings() -> None:
    listeners = [ListenerSettings(protocol.name, protocol=protocol) for protocol in SecurityProtocol]
    assert list(sasl_listeners(SCRAM, listeners)) == ["SASL_PLAINTEXT", "SASL_SSL"]
