"""Kafka's Uuid: 16 bytes, written as 22 characters of url-safe base64 without padding."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import Protocol

ID_BYTES = 16

MIGRATING = bytes(15) + b"\x00"
"""The directory id of a replica that was created before metadata recorded directories."""
UNASSIGNED = bytes(15) + b"\x01"
"""The directory id of a replica without a directory yet; also the topic id of the metadata log."""
LOST = bytes(15) + b"\x02"
"""The directory id of a replica whose log directory its broker has lost."""
RESERVED_MAX = 100
"""The highest reserved id. No directory has an id up to this one."""


def is_directory(directory_id: bytes) -> bool:
    """Whether this is the id of a directory and not a reserved id."""
    return int.from_bytes(directory_id, "big") > RESERVED_MAX


class Randomness(Protocol):
    """A source of random bytes, such as `random.Random`."""

    def randbytes(self, n: int, /) -> bytes:
        """Return `n` random bytes."""


def new_id(randomness: Randomness) -> bytes:
    """Return a random UUID of version 4, whose text does not begin with "-" like a command-line option."""
    while True:
        drawn = bytearray(randomness.randbytes(ID_BYTES))
        # RFC 9562 puts the version and the variant into these bits.
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        if not id_text(drawn).startswith("-"):
            return bytes(drawn)


def id_text(value: bytes | bytearray) -> str:
    """Return the text of an id as Kafka writes it into files and log lines."""
    return urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def id_bytes(text: str) -> bytes:
    """Return the id of a text written by `id_text`. Raise ValueError if the text is not an id."""
    try:
        value = urlsafe_b64decode(text + "==")
    except Base64Error as error:
        raise ValueError(f"{text!r} is not an id in base64") from error
    if len(value) != ID_BYTES or id_text(value) != text:
        raise ValueError(f"{text!r} is not an id of {ID_BYTES} bytes in base64")
    return value
