"""The mechanism PLAIN for the users of SCRAM: a password is checked against the keys that were made of it.

The broker stores no password. To check one takes milliseconds of computation, as SCRAM has it, and so does one of an
unknown user. A password that was right is remembered as a hash by a key that only this process has.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import partial

from pykbroker.core.security.sasl.mechanism import Challenge, Computation
from pykbroker.core.security.sasl.plain import check_authorization_id, read_token, wrong_password
from pykbroker.core.security.sasl.scram import (
    ITERATIONS_MIN,
    SHA_256,
    SHA_512,
    ScramCredential,
    ScramHash,
    UnknownUsers,
    scram_credential,
    unknown_credential,
)


class PlainByScram:
    """PLAIN for the users that `credential_of` has a credential of. An instance is the exchange of each log-in, too.

    `unknown` returns what stands for the credentials of all others. `key` is random.
    """

    def __init__(
        self,
        credential_of: Callable[[ScramHash, str], ScramCredential | None],
        unknown: Callable[[], UnknownUsers],
        key: bytes,
    ) -> None:
        self._credential_of, self._unknown, self._key = credential_of, unknown, key
        self._right: dict[str, tuple[bytes, bytes]] = {}
        """User -> the stored key of the credential, and the hash of the password that belongs to it."""

    def begin(self, nonce: str) -> PlainByScram:
        return self

    def answer(self, token: bytes) -> Challenge | Computation:
        """Return the user of a token, or the computation that checks the password."""
        authorization_id, user, password = read_token(token)
        of, credential, may_succeed = self._credential(user)
        stored_key, right = self._right.get(user, (b"", b""))
        is_current = hmac.compare_digest(stored_key, credential.stored_key)
        if hmac.compare_digest(right, self._hash(user, password)) and is_current and may_succeed:
            check_authorization_id(authorization_id, user)
            return Challenge(b"", user)
        return Computation(
            lambda: scram_credential(of, password, credential.salt, credential.iterations).stored_key,
            partial(self._checked, authorization_id, user, password, credential, may_succeed=may_succeed),
        )

    def _checked(
        self,
        authorization_id: str,
        user: str,
        password: str,
        credential: ScramCredential,
        computed_key: bytes,
        *,
        may_succeed: bool,
    ) -> Challenge:
        if not (hmac.compare_digest(computed_key, credential.stored_key) and may_succeed):
            raise wrong_password(user)
        _, current, may_succeed = self._credential(user)  # it may have been changed while the password was computed
        if not (hmac.compare_digest(current.stored_key, credential.stored_key) and may_succeed):
            raise wrong_password(user)
        self._right[user] = credential.stored_key, self._hash(user, password)
        check_authorization_id(authorization_id, user)
        return Challenge(b"", user)

    def _credential(self, user: str) -> tuple[ScramHash, ScramCredential, bool]:
        """Return the credential that is checked first, and whether it is that of an existing user."""
        for of in (SHA_256, SHA_512):
            found = self._credential_of(of, user)
            if found is not None:
                return of, found, found.iterations >= ITERATIONS_MIN
        # Users may have SHA-512 alone, which takes twice as long: a faster answer would tell who is unknown.
        unknown = self._unknown()
        of = SHA_256 if SHA_256.number in dict(unknown.kind_of(user)) else SHA_512
        return of, unknown_credential(of, user, unknown), False

    def _hash(self, user: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{user}\0{password}".encode(errors="surrogatepass"), "sha256")
