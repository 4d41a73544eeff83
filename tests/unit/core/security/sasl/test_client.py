"""Tests of the client's side of SASL: against the broker's side, by the vectors of RFCs, and with a false broker."""

from __future__ import annotations

import pytest

from pykbroker.core.security.sasl.client import (
    CLIENT_MECHANISMS,
    ScramClient,
    UntrustedBroker,
    client_mechanism,
    reauthentication_s,
)
from pykbroker.core.security.sasl.login import Login
from pykbroker.core.security.sasl.mechanism import Mechanism
from pykbroker.core.security.sasl.plain import Plain
from pykbroker.core.security.sasl.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_HASHES,
    SHA_256,
    Scram,
    ScramHash,
    UnknownUsers,
    scram_credential,
)
from pykbroker.core.security.secret import Secret
from tests.unit.core.security.sasl.rfc import of_the_rfcs

USER = "b,o=b"
FIRST = "r=client-server,s=c2FsdA==,i={}"


def broker() -> Login:
    """Return the log-in of a broker with one user."""
    mechanisms: dict[str, Mechanism] = {"PLAIN": Plain({USER: Secret("secret")})}
    for name, of in SCRAM_HASHES.items():
        credential = scram_credential(of, "secret", b"salt", ITERATIONS_MIN)
        mechanisms[name] = Scram(of, {USER: credential}.get, lambda: UnknownUsers(b"key"))
    return Login(mechanisms, {}, 0)


@pytest.mark.parametrize("name", CLIENT_MECHANISMS)
def test_a_client_logs_in_at_our_broker(name: str) -> None:
    server, client = broker(), client_mechanism(name, USER, Secret("secret")).begin("client")
    server.handshake(name, 1, "server")
    token: bytes | None = client.first()
    while token is not None:
        token = client.answer(server.token(token, 0).token)
    assert server.identity is not None
    assert (server.identity.user, server.identity.mechanism) == (USER, name)


@of_the_rfcs
def test_the_exchange_of_the_rfc(of: ScramHash, salt: str, nonces: tuple[str, str], proof: str, signature: str) -> None:
    exchange = ScramClient(of, "user", Secret("pencil")).begin(nonces[0])
    nonce = "".join(nonces)
    assert exchange.first() == f"n,,n=user,r={nonces[0]}".encode()
    assert exchange.answer(f"r={nonce},s={salt},i=4096".encode()) == f"c=biws,r={nonce},p={proof}".encode()
    assert exchange.answer(f"v={signature}".encode()) is None


@pytest.mark.parametrize(
    ("first", "cause"),
    [
        ("r=client-server,s=c2FsdA==", "no first message"),
        ("r=client-server,s=c2Fsd,i=4096", "no first message"),
        ("r=client,s=c2FsdA==,i=4096", "nonce"),
        ("r=other-server,s=c2FsdA==,i=4096", "nonce"),
        (FIRST.format(ITERATIONS_MIN - 1), "asks for 4095 iterations, allowed are 4096 to 16384"),
        (FIRST.format(ITERATIONS_MAX + 1), "asks for 16385 iterations"),
        (FIRST.format(999_999_999), "asks for 999999999 iterations"),
    ],
)
def test_a_broker_that_breaks_the_rules_of_scram_is_refused(first: str, cause: str) -> None:
    exchange = ScramClient(SHA_256, "alice", Secret("secret")).begin("client")
    with pytest.raises(UntrustedBroker, match=cause):
        exchange.answer(first.encode())


@pytest.mark.parametrize("iterations", [ITERATIONS_MIN, ITERATIONS_MAX])
@pytest.mark.parametrize(
    ("last", "cause"),
    [
        (b"v=" + b"A" * 43 + b"=", "does not know the password"),
        (b"v=", "does not know the password"),
        (b"e=other-error", "refuses the log-in: other-error"),
        (b"", "no final message"),
        (b"v=%", "no final message"),
    ],
)
def test_a_broker_that_does_not_prove_itself_is_refused(iterations: int, last: bytes, cause: str) -> None:
    exchange = ScramClient(SHA_256, "alice", Secret("secret")).begin("client")
    assert exchange.answer(FIRST.format(iterations).encode()) is not None
    with pytest.raises(UntrustedBroker, match=cause):
        exchange.answer(last)


def test_the_salted_password_is_made_again_only_for_another_salt_or_number_of_iterations() -> None:
    client = ScramClient(SHA_256, "alice", Secret("secret"))
    first = client.salted_password(b"salt", 4096)
    assert client.salted_password(b"salt", 4096) is first
    assert len({first, client.salted_password(b"other", 4096), client.salted_password(b"other", 4097)}) == 3
    assert first.hex() not in repr(client)


@pytest.mark.parametrize(("share", "after_s"), [(0, 8.5), (0.5, 9), (1, 9.5)])
def test_a_client_authenticates_again_before_its_session_ends(share: float, after_s: float) -> None:
    assert reauthentication_s(10_000, share) == pytest.approx(after_s)


def test_the_names_of_users_are_escaped() -> None:
    exchange = ScramClient(SHA_256, "a=,b", Secret("secret")).begin("nonce")
    assert exchange.first() == b"n,,n=a=3D=2Cb,r=nonce"
