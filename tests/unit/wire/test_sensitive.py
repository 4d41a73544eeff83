"""Secrets in messages: the fields that may have one are marked, and no repr has their values."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import wire.messages
import wire.stored
from wire.declare import Struct, sensitive_fields
from wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from wire.messages.incremental_alter_configs import AlterableConfig
from wire.messages.sasl_authenticate import SaslAuthenticateRequest
from wire.messages.sasl_handshake import SaslHandshakeRequest
from wire.schema import Field, fields_of
from wire.stored.metadata_security import UserScramCredentialRecord

SECRET_NAMES = re.compile("auth|credential|hmac|key$|passw|private|salt|secret|token")
"""The names that a secret may have."""
NOT_SECRET = {"key", "token_id", "token_requester_principal_name", "token_requester_principal_type"}
"""Texts that only sound like secrets: names of tokens and their owners, and keys of quotas, coordinators and tags."""
BYTES_OF_CLIENTS = {
    *("assignment", "client_host_address", "custom_metadata", "member_assignment", "member_metadata", "metadata"),
    *("metrics", "subscription", "user_data"),
}
"""Fields of bytes that have no secret: the metadata of groups, telemetry, addresses, and plugins' data of segments."""


def fields() -> Iterator[tuple[type[Struct], Field]]:
    for package in (wire.messages, wire.stored):
        for found in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            for cls in vars(module).values():
                if isinstance(cls, type) and issubclass(cls, Struct) and cls.__module__ == module.__name__:
                    yield from ((cls, field) for field in fields_of(cls))


def test_every_field_that_may_be_a_secret_is_marked() -> None:
    forgotten = []
    for cls, field in fields():
        inner = field.type.item or field.type
        named = inner.is_string and SECRET_NAMES.search(field.name) and field.name not in NOT_SECRET
        is_config = "Config" in cls.__name__ and "streams_group" not in cls.__module__
        named = named or (is_config and field.name == "value" and inner.is_string)
        if named or (inner.is_bytes and field.name not in BYTES_OF_CLIENTS):
            forgotten += [f"{cls.__name__}.{field.name}"] * (field.name not in sensitive_fields(cls))
    assert forgotten == []


def test_the_lists_of_fields_without_a_secret_have_no_others() -> None:
    names = {field.name for _, field in fields() if not (field.type.item or field.type).fixed}
    assert names >= BYTES_OF_CLIENTS
    assert {name for name in NOT_SECRET if not SECRET_NAMES.search(name)} == set()
    assert names >= NOT_SECRET


@pytest.mark.parametrize(
    "message",
    [
        SaslAuthenticateRequest(auth_bytes=b"CANARY"),
        AlterableConfig(name="ssl.key.password", value="CANARY"),
        UserScramCredentialRecord(name="alice", stored_key=b"CANARY", server_key=b"CANARY", salt=b"CANARY"),
        AlterUserScramCredentialsRequest(
            upsertions=[ScramCredentialUpsertion(name="alice", salt=b"CANARY", salted_password=b"CANARY")]
        ),
    ],
)
def test_a_repr_hides_secrets(message: Struct) -> None:
    assert "CANARY" not in f"{message!r} {message} {[message]}"
    assert "[hidden]" in repr(message)


def test_a_repr_shows_all_that_is_not_secret() -> None:
    assert repr(AlterableConfig(name="a")) == "AlterableConfig(name='a', config_operation=0, value=[hidden])"
    assert repr(SaslHandshakeRequest(mechanism="PLAIN")) == "SaslHandshakeRequest(mechanism='PLAIN')"
