"""The interface of SASL mechanisms, and the error of a failed log-in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

CLAIM_CHARS_MAX = 64
"""The characters of a name that a client claims which are kept and logged. A stranger may send a long one."""


class Challenge(msgspec.Struct, frozen=True):
    """The answer to a client's token: a challenge, or the outcome.

    `user` is the name of the client's user once the exchange is complete, else None. `lifetime_ms` is the rest of the
    lifetime of the user's credential, or None if it has no end.
    """

    token: bytes
    user: str | None = None
    lifetime_ms: int | None = None


class Computation(msgspec.Struct, frozen=True):
    """A challenge that takes milliseconds of computation.

    `compute` may run in any thread. `answer` takes its result, in the thread of the exchange, and returns the challenge
    or raises AuthenticationFailed.
    """

    compute: Callable[[], bytes]
    answer: Callable[[bytes], Challenge]


class AuthenticationFailed(Exception):
    """A failed log-in.

    `message` is what the client is told, or None if it is told only that its credentials are invalid. `reason` is for
    the broker's log. It has no secret, and no text of the client; `user` is the name that the client claims, if any, or
    its first `CLAIM_CHARS_MAX` characters.
    """

    def __init__(self, reason: str, *, message: str | None = None, user: str = "") -> None:
        super().__init__(reason)
        self.reason, self.message, self.user = reason, message, user[:CLAIM_CHARS_MAX]


class Exchange(Protocol):
    """The exchange of tokens of one log-in."""

    def answer(self, token: bytes) -> Challenge | Computation:
        """Return the answer to the client's next token. Raise AuthenticationFailed: the log-in has failed."""


class Mechanism(Protocol):
    """A SASL mechanism of one listener."""

    def begin(self, nonce: str) -> Exchange:
        """Return the exchange of a new log-in. `nonce` is random text that no one can predict."""
