"""Users as words of a command: NAME[:PASSWORD], or @FILE with one a line."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from itertools import chain

import click

from pykbroker.core.new_user import NAME_CHARACTERS_MAX, NewUser
from pykbroker.core.security.sasl.scram import NONCE_BITS, base36
from pykbroker.core.security.secret import Secret

PASSWORD_BYTES = 12
"""The random bytes of a generated password, which has 16 characters."""


def new_users(texts: Iterable[str], place: str) -> tuple[NewUser, ...]:
    """Return the users of the words of an option or argument. click.BadParameter: one is none, or is there twice."""
    found: dict[str, NewUser] = {}
    for where, line in chain.from_iterable(lines_of(text, place) for text in texts):
        name, colon, password = line.partition(":")
        is_one_line = not set("\r\n").intersection(line) and not line.startswith("#")  # as a file could have it
        if not (name and name.isascii() and name.isprintable() and is_one_line) or (colon and not password):
            raise click.BadParameter(
                f"{where}a user is NAME[:PASSWORD], with a name in ASCII, or @FILE", param_hint=place
            )
        if len(name) > NAME_CHARACTERS_MAX:
            raise click.BadParameter(f"{where}a name has at most {NAME_CHARACTERS_MAX:,} characters", param_hint=place)
        if has_surrogates(password):
            raise click.BadParameter(f"{where}the password of {name} is no text in UTF-8", param_hint=place)
        if name in found:
            raise click.BadParameter(f"{where}{name} is there twice: leave one out", param_hint=place)
        found[name] = NewUser(name, Secret(password or secrets.token_urlsafe(PASSWORD_BYTES)), is_generated=not colon)
    return tuple(found.values())


def lines_of(text: str, place: str) -> Iterator[tuple[str, str]]:
    """Yield the text, or for @FILE the lines of the file that are neither empty nor begin with #.

    Before a line stands its number for an error, which has no other part of it: it may be a password.
    """
    if not text.startswith("@"):
        yield "", text
        return
    try:
        with open(text[1:], encoding="utf-8") as file:
            lines = [line.rstrip("\n") for line in file]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise click.BadParameter(f"cannot read {text[1:]} ({reason})", param_hint=place) from None
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#"):
            yield f"{text[1:]}:{number}: ", line


def has_surrogates(text: str) -> bool:
    """Whether a text has bytes of the command line or of a variable that are not UTF-8."""
    return any("\ud800" <= each <= "\udfff" for each in text)


def new_salt() -> bytes:
    """Return a random salt for a password, as Kafka makes it."""
    return base36(secrets.randbits(NONCE_BITS)).encode()
