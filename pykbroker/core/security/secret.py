"""A secret text, such as a password, that appears in no repr, log line or error."""

from __future__ import annotations

import hashlib
import hmac
from typing import final

from wire.declare import HIDDEN


@final
class Secret:
    """A secret text. It is compared in a time that depends neither on its length nor on the first difference."""

    __slots__ = ("_digest", "_text")

    def __init__(self, text: str) -> None:
        self._text, self._digest = text, digest(text)

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def is_equal(self, text: str) -> bool:
        """Whether the secret is this text."""
        return hmac.compare_digest(self._digest, digest(text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._digest, other._digest)

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return HIDDEN


def digest(text: str) -> bytes:
    """Return a hash of constant length, since `compare_digest` may reveal the length of a shorter value."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()
