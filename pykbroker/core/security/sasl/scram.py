"""The mechanisms SCRAM-SHA-256 and SCRAM-SHA-512: the client proves that it knows a password without sending it.

1. A message has Kafka's form, which is stricter than that of RFC 5802: names are ASCII, and not empty.
2. Neither channel binding nor the client's extensions mean anything. As in Kafka, extensions of the first message
   belong to what the client proves, and those of the final one do not.
3. An unknown user has a salt of its own, the same each time, and fails at the same message as one with a wrong
   password. Kafka refuses an unknown user one message sooner, which tells a stranger who has an account. The mechanisms
   and iterations of unknown users are distributed as those of the others.

Source: RFC 5802, RFC 7677, ScramSaslServer and ScramMessages of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from math import log
from typing import NamedTuple

from pykbroker.core.security.sasl.mechanism import CLAIM_CHARS_MAX, AuthenticationFailed, Challenge
from pykbroker.core.security.sasl.plain import OTHER_AUTHORIZATION_ID

# A stranger chooses up to `sasl.server.max.receive.size` bytes of a message. Possessive patterns (`++`) go through them
# once. Other patterns keep positions to come back to, and took 200 ms of the event loop and 90 MB.
NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
VALUE = r"[\x01-\x2b\x2d-\x7f]++"
NONCE = r"[\x21-\x2b\x2d-\x7e]++"
EXTENSIONS = rf"(?P<extensions>(?:,[A-Za-z]++={VALUE})*+)"
BASE64 = r"(?:[a-zA-Z0-9/+]{4})*+(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
# Python compiles a pattern when it is first used, and keeps it: most brokers need none of these.
BARE = rf"n=(?P<name>{NAME}),r=(?P<nonce>{NONCE}){EXTENSIONS}"
FIRST = rf"n,(?:a=(?P<authorization_id>{NAME}))?,(?:m={VALUE},)?(?P<bare>{BARE})"
WITHOUT_PROOF = rf"(?P<signed>c={BASE64},r=(?P<nonce>{NONCE})){EXTENSIONS}"
TOKEN_AUTHENTICATION = r",tokenauth=(?i:true)(?:,|\Z)"
"""The extension of a client that logs in by a delegation token."""

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16_384
"""Kafka's limits (`ScramMechanism`, and `ScramControlManager.MAX_ITERATIONS`)."""
SHARE_BYTES = 6
NONCE_BITS = 130
"""The random bits of a nonce or a salt, of which Kafka writes a number in base 36."""
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramHash(NamedTuple):
    """A SCRAM mechanism: its hash function, the number that stands for it in messages, and the size of its keys."""

    mechanism: str
    hash: str
    number: int
    bytes: int


SHA_256, SHA_512 = ScramHash("SCRAM-SHA-256", "sha256", 1, 32), ScramHash("SCRAM-SHA-512", "sha512", 2, 64)
SCRAM_HASHES = {each.mechanism: each for each in (SHA_256, SHA_512)}


class ScramCredential:
    """The keys of a user's password, which do not reveal the password. The repr has no key."""

    __slots__ = ("iterations", "salt", "server_key", "stored_key")

    def __init__(self, salt: bytes, stored_key: bytes, server_key: bytes, iterations: int) -> None:
        self.salt, self.stored_key, self.server_key, self.iterations = salt, stored_key, server_key, iterations

    def __repr__(self) -> str:
        return f"ScramCredential({self.iterations} iterations)"


Kind = tuple[tuple[int, int], ...]
"""The credentials that a user has: the number of each mechanism, and its iterations."""
USUAL_KIND: Kind = tuple((of.number, ITERATIONS_MIN) for of in (SHA_256, SHA_512))
"""The kind of the users that pykbroker makes."""


class UnknownUsers:
    """The facts from which the credentials of users without one are made up. The repr has no secret.

    `secret` is the key of their salts: whoever knows it can distinguish them from others. `kinds` are those of the
    existing users, with the number of users of each.
    """

    __slots__ = ("_texts", "kinds", "secret")

    def __init__(self, secret: bytes, kinds: Mapping[Kind, int] | None = None) -> None:
        self.secret, self.kinds = secret, kinds or {USUAL_KIND: 1}
        self._texts = {kind: f"{kind}\0".encode() for kind in self.kinds}

    def kind_of(self, user: str) -> Kind:
        """Return the kind of an unknown user: each with the probability that an existing user has it."""
        return self._chosen(user, list(self.kinds))

    def iterations(self, of: ScramHash, user: str) -> int:
        """Return the iterations of an unknown user, or of one that has no credential of this mechanism."""
        kinds = [kind for kind in self.kinds if of.number in dict(kind)]
        return dict(self._chosen(user, kinds))[of.number] if kinds else ITERATIONS_MIN

    def _chosen(self, user: str, kinds: list[Kind]) -> Kind:
        """Return one of the kinds, the same each time. If their numbers change, few users get another one.

        The lowest of exponential variables whose rates are the numbers is chosen: weighted rendezvous hashing.
        """
        if len(kinds) == 1:
            return kinds[0]
        return max(kinds, key=lambda kind: log(self._share(kind, user)) / self.kinds[kind])

    def _share(self, kind: Kind, user: str) -> float:
        """Return a number above 0, at most 1, that no one can predict."""
        made = hmac.digest(self.secret, self._texts[kind] + user.encode(), "sha256")
        return (int.from_bytes(made[:SHARE_BYTES], "big") + 1) / (1 << 8 * SHARE_BYTES)


class Scram:
    """A SCRAM mechanism.

    `credential_of` returns the credential of a user, or None. `unknown` returns what stands for those of all others.
    """

    def __init__(
        self, of: ScramHash, credential_of: Callable[[str], ScramCredential | None], unknown: Callable[[], UnknownUsers]
    ) -> None:
        self._of, self._credential_of, self._unknown = of, credential_of, unknown

    def begin(self, nonce: str) -> ScramExchange:
        return ScramExchange(self._of, self._credential, nonce)

    def _credential(self, user: str) -> tuple[ScramCredential, bool]:
        """Return a credential, and whether it is that of an existing user whose iterations are enough."""
        made_up = unknown_credential(self._of, user, self._unknown())
        found = self._credential_of(user)
        if found is None:
            return made_up, False
        return found, found.iterations >= ITERATIONS_MIN


class ScramExchange:
    """The exchange of one log-in: the client's first message, and its final one."""

    def __init__(self, of: ScramHash, credential_of: Callable[[str], tuple[ScramCredential, bool]], nonce: str) -> None:
        self._of, self._credential_of, self._nonce = of, credential_of, nonce
        self._user = ""
        self._begun: _Begun | None = None

    def answer(self, token: bytes) -> Challenge:
        """Return the server's first message, and then its final one with the name of the user."""
        text = token.decode(errors="replace")
        return self._first(text) if self._begun is None else self._final(text, self._begun)

    def _first(self, text: str) -> Challenge:
        message = re.fullmatch(FIRST, text)
        if message is None:
            raise AuthenticationFailed("the client's first message is no first message of SCRAM")
        user = user_of(message["name"])
        self._user = user[:CLAIM_CHARS_MAX]
        if re.search(TOKEN_AUTHENTICATION, message["extensions"]):
            raise AuthenticationFailed(
                "the client presents a delegation token, and the broker has none", user=self._user
            )
        if message["authorization_id"] not in (None, user):
            raise AuthenticationFailed(OTHER_AUTHORIZATION_ID, message=OTHER_AUTHORIZATION_ID, user=self._user)
        credential, may_succeed = self._credential_of(user)
        nonce = message["nonce"] + self._nonce
        first = f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        start = f"{message['bare']},{first},".encode()
        self._begun = _Begun(
            nonce=hashlib.sha256(nonce.encode()).digest(),
            stored_key=credential.stored_key,
            client_signature=hmac.new(credential.stored_key, start, self._of.hash),
            server_signature=hmac.new(credential.server_key, start, self._of.hash),
            user=user if may_succeed else None,
        )
        return Challenge(first.encode())

    def _final(self, text: str, begun: _Begun) -> Challenge:
        without_proof, _, proof = text.rpartition(",p=")
        message = re.fullmatch(WITHOUT_PROOF, without_proof)
        if message is None:
            raise AuthenticationFailed("the client's final message is no final message of SCRAM", user=self._user)
        if not hmac.compare_digest(hashlib.sha256(message["nonce"].encode()).digest(), begun.nonce):
            raise AuthenticationFailed(
                "the nonce of the client's final message is not that of the first", user=self._user
            )
        signed = message["signed"].encode()
        begun.client_signature.update(signed)
        begun.server_signature.update(signed)
        is_right = proves(self._of, begun.stored_key, begun.client_signature.digest(), proof)
        if not is_right or begun.user is None or not self._is_current(begun.user, begun.stored_key):
            raise AuthenticationFailed("the user is unknown, or the password is wrong", user=self._user)
        return Challenge(b"v=" + b64encode(begun.server_signature.digest()), begun.user)

    def _is_current(self, user: str, stored_key: bytes) -> bool:
        """Whether the credential is still that of the user: it may have been changed since the first message."""
        credential, may_succeed = self._credential_of(user)
        return may_succeed and hmac.compare_digest(credential.stored_key, stored_key)


class _Begun(NamedTuple):
    """The rest of a client's first message: hashes, since a stranger may send a long one and let the broker keep it.

    The signatures are of what the two first messages have. `user` is None if the log-in cannot succeed.
    """

    nonce: bytes
    stored_key: bytes
    client_signature: hmac.HMAC
    server_signature: hmac.HMAC
    user: str | None


def proves(of: ScramHash, stored_key: bytes, signature: bytes, proof: str) -> bool:
    """Whether the client's proof, in base64, shows that it knows the password. `signature` is that of the client."""
    try:
        sent = b64decode(proof, validate=True)
    except ValueError:
        return False
    if len(sent) != of.bytes:
        return False
    client_key = bytes(a ^ b for a, b in zip(signature, sent, strict=True))
    return hmac.compare_digest(hashlib.new(of.hash, client_key).digest(), stored_key)


def user_of(name: str) -> str:
    """Return the user of a name in a message, where `,` and `=` are escaped."""
    user = name.replace("=2C", ",")
    if "=" in user.replace("=3D", ""):
        raise AuthenticationFailed("the name of the user has an invalid escape")
    return user.replace("=3D", "=")


def unknown_credential(of: ScramHash, user: str, unknown: UnknownUsers) -> ScramCredential:
    """Return the credential that no password fits, for a user without one: the same each time."""
    made = hmac.digest(unknown.secret, f"{of.mechanism}\0{user}".encode(), "sha512")
    salt = base36(int.from_bytes(made, "big") >> (8 * len(made) - NONCE_BITS))
    return ScramCredential(salt.encode(), bytes(of.bytes), bytes(of.bytes), unknown.iterations(of, user))


def base36(number: int) -> str:
    """Return a number in base 36, as Kafka writes nonces and salts."""
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = DIGITS[digit] + digits
    return digits or "0"


def salted_password(of: ScramHash, password: str, salt: bytes, iterations: int) -> bytes:
    """Return a password, salted and hashed. It takes milliseconds: with 4,096 iterations 1.9 or, for SHA-512, 3.7."""
    return hashlib.pbkdf2_hmac(of.hash, password.encode(), salt, iterations)


def scram_credential(of: ScramHash, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential of a password. It takes as long as `salted_password`."""
    return salted_credential(of, salted_password(of, password, salt, iterations), salt, iterations)


def salted_credential(of: ScramHash, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential of a password that is already salted and hashed."""
    client_key = hmac.digest(salted_password, b"Client Key", of.hash)
    server_key = hmac.digest(salted_password, b"Server Key", of.hash)
    return ScramCredential(salt, hashlib.new(of.hash, client_key).digest(), server_key, iterations)
