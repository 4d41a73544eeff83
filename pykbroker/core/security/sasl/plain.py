"""The mechanism PLAIN: one token has the user and the password. Source: RFC 4616, PlainSaslServer of Kafka."""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.core.security.sasl.mechanism import AuthenticationFailed, Challenge
from pykbroker.core.security.secret import Secret

PLAIN = "PLAIN"
TOKENS = 3
TOKENS_MAX = 4
"""The number at which Kafka stops counting the parts of a token."""
USER_OPTION = "user_"
OTHER_AUTHORIZATION_ID = "Authentication failed: Client requested an authorization id that is different from username"
UNKNOWN = Secret("")
"""The secret of unknown users, so that a comparison takes the same time. No password that is compared is empty."""


class Plain:
    """PLAIN with these users, by name. It has no state: an instance is the exchange of each log-in, too."""

    def __init__(self, users: Mapping[str, Secret]) -> None:
        self._users = users

    def begin(self, nonce: str) -> Plain:
        return self

    def answer(self, token: bytes) -> Challenge:
        """Return the user of the token `[authorization id] NUL user NUL password`."""
        authorization_id, user, password = read_token(token)
        if not self._users.get(user, UNKNOWN).is_equal(password):
            raise wrong_password(user)
        check_authorization_id(authorization_id, user)
        return Challenge(b"", user)


def read_token(token: bytes) -> tuple[str, str, str]:
    """Return the authorization id, which may be empty, the user and the password. Raise AuthenticationFailed."""
    parts = token.decode(errors="replace").split("\0", TOKENS_MAX)
    if len(parts) != TOKENS:
        found = min(len(parts), TOKENS_MAX)
        raise refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {found}")
    authorization_id, user, password = parts
    if not user:
        raise refused("Authentication failed: username not specified")
    if not password:
        raise refused("Authentication failed: password not specified", user)
    return authorization_id, user, password


def check_authorization_id(authorization_id: str, user: str) -> None:
    """Raise AuthenticationFailed if a user whose password is right asks to act for another one."""
    if authorization_id not in ("", user):
        raise refused(OTHER_AUTHORIZATION_ID, user)


def wrong_password(user: str) -> AuthenticationFailed:
    """Return the error of an unknown user, or of a wrong password."""
    return refused("Authentication failed: Invalid username or password", user)


def refused(message: str, user: str = "") -> AuthenticationFailed:
    """Return the error whose text the client gets, as in Kafka."""
    return AuthenticationFailed(message, message=message, user=user)


def plain_users(options: Mapping[str, Secret]) -> dict[str, Secret]:
    """Return the users of the options `user_NAME` of a login module."""
    return {name.removeprefix(USER_OPTION): secret for name, secret in options.items() if name.startswith(USER_OPTION)}
