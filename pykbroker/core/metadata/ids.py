"""Kafka's Uuid: 16 bytes, written as 22 characters of url-safe base64 without padding."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import Protocol

ID_BYTES = 16

MIGRATING = bytes(15) + b"\x00"
"""The directory of a replica from before directories were recorded."""
UNASSIGNED = bytes(15) + b"\x01"
"""The directory of a replica that its broker has yet to place; also the topic id of the metadata log."""
LOST = bytes(15) + b"\x02"
"""The directory of a replica that lies in one its broker does not have any more, nobody knows in which."""
RESERVED_MAX = 100
"""Directory ids up to this number mean something else than a directory."""


def is_directory(directory_id: bytes) -> bool:
    """Whether this is the id of a directory, and none of the reserved ones."""
    return int.from_bytes(directory_id, "big") > RESERVED_MAX


class Randomness(Protocol):
    """Where ids come from; `random.Random` is one."""

    def randbytes(self, n: int, /) -> bytes:
        """`n` random bytes."""


def new_id(randomness: Randomness) -> bytes:
    """A version 4 UUID that is not reserved and whose text does not look like an option of a command line."""
    while True:
        drawn = bytearray(randomness.randbytes(ID_BYTES))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        if not id_text(drawn).startswith("-"):
            return bytes(drawn)


def id_text(value: bytes | bytearray) -> str:
    """The text that Kafka writes into files and log lines."""
    return urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def id_bytes(text: str) -> bytes:
    """The reverse of `id_text`; ValueError for what is not such a text."""
    try:
        value = urlsafe_b64decode(text + "==")
    except Base64Error as error:
        raise ValueError(f"{text!r} is not an id in base64") from error
    if len(value) != ID_BYTES or id_text(value) != text:
        raise ValueError(f"{text!r} is not an id of {ID_BYTES} bytes in base64")
    return value
