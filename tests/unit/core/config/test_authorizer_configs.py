"""Tests of the configs of Kafka's StandardAuthorizer."""

from __future__ import annotations

import pytest

from pykbroker.core.config.authorizer_configs import AuthorizerSettings
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.java_classes import STANDARD_AUTHORIZER
from pykbroker.core.errors import ApiError

NAMED = {"authorizer.class.name": STANDARD_AUTHORIZER}


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ({}, None),
        ({"authorizer.class.name": "", "super.users": "alice"}, None),
        ({**NAMED, "pykbroker.ignore.classes": "authorizer.class.name"}, None),
        (NAMED, AuthorizerSettings()),
        (
            {**NAMED, "super.users": " User:a b ; ;User:CN=x,O=y;Group:", "allow.everyone.if.no.acl.found": " TRUE"},
            AuthorizerSettings(frozenset({"User:a b", "User:CN=x,O=y", "Group:"}), allows_without_acls=True),
        ),
        ({**NAMED, "super.users": "", "allow.everyone.if.no.acl.found": "yes"}, AuthorizerSettings()),
    ],
)
def test_the_authorizer_follows_from_the_configs(texts: dict[str, str], found: AuthorizerSettings | None) -> None:
    config = BrokerConfig.from_mapping(texts)
    assert config.authorizer == found
    assert config.with_dynamic({}).authorizer == found
    assert config.unknown == ()


def test_a_super_user_without_a_type_prevents_the_start() -> None:
    with pytest.raises(ApiError, match=r"super\.users: alice is no principal.*such as User:alice"):
        BrokerConfig.from_mapping({**NAMED, "super.users": "User:bob;alice"})


def test_another_authorizer_of_java_is_refused() -> None:
    with pytest.raises(ApiError, match="authorizer.class.name is set to org.example.Mine"):
        BrokerConfig.from_mapping({"authorizer.class.name": "org.example.Mine"})
