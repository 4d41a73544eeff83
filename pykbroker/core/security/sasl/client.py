"""The client's side of SASL: mechanisms that take the broker's tokens, and return the client's.

1. A mechanism belongs to one user, and begins an exchange for each log-in. It keeps the salted password of SCRAM, which
   takes milliseconds to make, for the next one.
2. A broker that does not prove that it knows the password of SCRAM, too, is refused.

Sources: RFC 4616, RFC 5802, KIP-152, KIP-368, and SaslClientAuthenticator and ScramSaslClient of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from typing import Protocol

from pykbroker.core.security.sasl.plain import PLAIN
from pykbroker.core.security.sasl.scram import (
    BASE64,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    NONCE,
    SCRAM_HASHES,
    VALUE,
    ScramHash,
    salted_credential,
    salted_password,
)
from pykbroker.core.security.secret import Secret

CLIENT_MECHANISMS = (PLAIN, *SCRAM_HASHES)
SERVER_FIRST = re.compile(
    rf"(?:m={VALUE},)?r=(?P<nonce>{NONCE}),s=(?P<salt>{BASE64}),i=(?P<iterations>[0-9]{{1,9}})(?:,.*)?"
)
SERVER_FINAL = re.compile(rf"(?:e=(?P<error>{VALUE})|v=(?P<signature>{BASE64}))(?:,.*)?")
GS2_HEADER = "n,,"
REAUTHENTICATION_SHARE_MIN, REAUTHENTICATION_SHARE_MAX = 0.85, 0.95
"""The share of a session's lifetime after which Java's clients authenticate again, chosen at random."""


class UntrustedBroker(Exception):
    """The error of a broker that breaks a rule of the mechanism, or does not prove that it knows the password."""


class ClientExchange(Protocol):
    """The exchange of tokens of one log-in."""

    def first(self) -> bytes:
        """Return the client's first token."""

    def answer(self, token: bytes) -> bytes | None:
        """Return the answer to a token of the broker, or None after the last one. Raise UntrustedBroker."""


class ClientMechanism(Protocol):
    """A mechanism with the credentials of one user. The repr has no secret."""

    name: str

    def begin(self, nonce: str) -> ClientExchange:
        """Return the exchange of a new log-in. `nonce` is random text that no one can predict."""


class PlainClient:
    """PLAIN. It has no state: an instance is the exchange of each log-in, too."""

    name = PLAIN

    def __init__(self, user: str, password: Secret) -> None:
        self._user, self._password = user, password

    def begin(self, nonce: str) -> PlainClient:
        return self

    def first(self) -> bytes:
        return f"\0{self._user}\0{self._password.reveal()}".encode()

    def answer(self, token: bytes) -> None:
        """Do nothing, since the broker's only token has no meaning."""


class ScramClient:
    """SCRAM, with the salted password of the last log-in."""

    def __init__(self, of: ScramHash, user: str, password: Secret) -> None:
        self.name, self._of, self._user, self._password = of.mechanism, of, user, password
        self._made = b""
        self._made_of: tuple[bytes, int] | None = None
        """The salt and the iterations of the salted password that is kept."""

    def begin(self, nonce: str) -> ScramClientExchange:
        return ScramClientExchange(self._of, self._user, nonce, self)

    def salted_password(self, salt: bytes, iterations: int) -> bytes:
        """Return the password, salted and hashed."""
        if self._made_of != (salt, iterations):
            self._made = salted_password(self._of, self._password.reveal(), salt, iterations)
            self._made_of = salt, iterations
        return self._made


class ScramClientExchange:
    """The exchange of one log-in by SCRAM."""

    def __init__(self, of: ScramHash, user: str, nonce: str, mechanism: ScramClient) -> None:
        self._of, self._nonce, self._mechanism = of, nonce, mechanism
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        return (GS2_HEADER + self._bare).encode()

    def answer(self, token: bytes) -> bytes | None:
        """Return the final message, and then None if the broker has proved that it knows the password, too."""
        text = token.decode(errors="replace")
        if self._signature is None:
            return self._final(text)
        message = SERVER_FINAL.fullmatch(text)
        if message is None:
            raise UntrustedBroker("the broker's final message is no final message of SCRAM")
        if message["error"] is not None:
            raise UntrustedBroker(f"the broker refuses the log-in: {message['error']}")
        if not hmac.compare_digest(b64decode(message["signature"]), self._signature):
            raise UntrustedBroker("the broker does not know the password, so it is not the one that it claims to be")
        return None

    def _final(self, text: str) -> bytes:
        message = SERVER_FIRST.fullmatch(text)
        if message is None:
            raise UntrustedBroker("the broker's first message is no first message of SCRAM")
        if not message["nonce"].startswith(self._nonce) or len(message["nonce"]) <= len(self._nonce):
            raise UntrustedBroker("the nonce of the broker's first message does not continue that of this client")
        iterations = int(message["iterations"])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise UntrustedBroker(
                f"the broker asks for {iterations} iterations, allowed are {ITERATIONS_MIN} to {ITERATIONS_MAX}"
            )
        salted = self._mechanism.salted_password(salt := b64decode(message["salt"]), iterations)
        of, credential = self._of, salted_credential(self._of, salted, salt, iterations)
        without_proof = f"c={b64encode(GS2_HEADER.encode()).decode()},r={message['nonce']}"
        signed = f"{self._bare},{text},{without_proof}".encode()
        client_signature = hmac.digest(credential.stored_key, signed, of.hash)
        client_key = hmac.digest(salted, b"Client Key", of.hash)
        proof = bytes(a ^ b for a, b in zip(client_key, client_signature, strict=True))
        self._signature = hmac.digest(credential.server_key, signed, of.hash)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()


def client_mechanism(name: str, user: str, password: Secret) -> ClientMechanism:
    """Return a mechanism of `CLIENT_MECHANISMS` with the credentials of a user."""
    return PlainClient(user, password) if name == PLAIN else ScramClient(SCRAM_HASHES[name], user, password)


def reauthentication_s(lifetime_ms: int, share: float) -> float:
    """Return the seconds after a log-in at which the client authenticates again. `share` is from 0 to 1."""
    span = REAUTHENTICATION_SHARE_MAX - REAUTHENTICATION_SHARE_MIN
    return lifetime_ms / 1000 * (REAUTHENTICATION_SHARE_MIN + share * span)
