"""Tests of the users that the settings of a start name, on a broker whose clients must log in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import trio

from pykbroker.core.address import Address
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.new_user import NewUser
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.core.security.sasl.scram import SHA_256, SHA_512, ScramHash
from pykbroker.core.security.secret import Secret
from pykbroker.core.settings import Settings
from tests.unit.apis.conftest import Client, serving_with, settings
from tests.unit.core.security.sasl.scram_client import final
from wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest

PORT = "listener.name.clients."
LISTENER = ListenerSettings("CLIENTS", Address("127.0.0.1", 0), protocol=SecurityProtocol.SASL_PLAINTEXT)
CONFIGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "connection.failed.authentication.delay.ms": "0",
    f"{PORT}plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required scram_users=true;"
    ),
}


def with_users(directory: Path, *users: NewUser) -> Settings:
    """Return the settings of a broker whose data outlives it."""
    configs: dict[str, Any] = CONFIGS
    chosen = settings(directory, listeners=(LISTENER,), **configs)
    return msgspec.structs.replace(chosen, users=users, inter_broker_listener="CLIENTS", memory=False)


def is_stored(directory: Path, text: bytes) -> bool:
    """Whether the metadata log has this text."""
    return any(text in path.read_bytes() for path in directory.glob("__cluster_metadata-0/*.log"))


async def token(client: Client, token: bytes) -> SaslAuthenticateResponse:
    answer: SaslAuthenticateResponse = await client.call(SaslAuthenticateRequest(auth_bytes=token), 2)
    return answer


async def plain(port: int, user: str, password: str) -> dict[str, list[int]] | None:
    """Log in by PLAIN, and return the mechanisms of all users, or None if the user may not log in."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        client = Client(stream)
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        if (await token(client, f"\0{user}\0{password}".encode())).error_code:
            return None
        described = await client.call(DescribeUserScramCredentialsRequest(users=None), 0)
        return {each.user: [info.mechanism for info in each.credential_infos] for each in described.results}


async def scram(port: int, of: ScramHash, user: str, password: str) -> bool:
    """Whether a client logs in by SCRAM."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        client = Client(stream)
        await client.call(SaslHandshakeRequest(mechanism=of.mechanism), 1)
        bare = f"n={user},r=client"
        first = await token(client, f"n,,{bare}".encode())
        sent = final(of, bare, bytes(first.auth_bytes), password)
        return (await token(client, sent)).error_code == 0


async def test_users_of_a_start_log_in_by_each_mechanism_and_a_later_start_changes_only_passwords_it_has(
    tmp_path: Path,
) -> None:
    alice, bob = NewUser("alice", Secret("one")), NewUser("bob", Secret("made"), is_generated=True)
    async with serving_with(with_users(tmp_path, alice, bob)) as local:
        port = local.serving.port
        assert local.serving.new_users == {"alice", "bob"}
        assert await plain(port, "alice", "one") == {"alice": [1, 2], "bob": [1, 2]}
        for of in (SHA_256, SHA_512):
            assert await scram(port, of, "bob", "made")
        assert not await scram(port, SHA_256, "bob", "one")
        assert await plain(port, "carol", "one") is None
    assert [is_stored(tmp_path, text) for text in (b"alice", b"made")] == [True, False]
    again = [NewUser("alice", Secret("two")), NewUser("bob", Secret("other"), is_generated=True)]
    async with serving_with(with_users(tmp_path, *again)) as local:
        port = local.serving.port
        assert local.serving.new_users == frozenset()
        assert [await plain(port, "alice", each) is not None for each in ("one", "two")] == [False, True]
        assert [await plain(port, "bob", each) is not None for each in ("made", "other")] == [True, False]
        assert await scram(port, SHA_512, "alice", "two")
