"""The iterations by which a key is derived from the password of a store (PBKDF2 of PKCS #8, PKCS #12 and its MAC).

Each format has the salt, an OCTET STRING, and then the number of iterations, an INTEGER (RFC 7292, RFC 8018). Only what
is itself encrypted is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from pykbroker.core.security.der import content, values

ITERATIONS_MAX = 5_000_000
"""The largest sum of iterations in a store. They take about 2 s, and keytool and openssl make 2,048 to 30,000."""
DEPTH_MAX = 64
"""The largest depth of values in each other. That of a store of Java or OpenSSL has 20."""
INTEGER, OCTET_STRING, SEQUENCE = 0x02, 0x04, 0x30
CONSTRUCTED = 0x20
COUNT_BYTES_MAX = 8
"""The size of the largest count that OpenSSL takes. A longer number is part of a key."""


class TooManyIterations(ValueError):
    """An error of a store whose decryption would take too long."""


def check_iterations(der: bytes) -> None:
    """Raise TooManyIterations for more than `ITERATIONS_MAX`, and ValueError or IndexError for what is no DER."""
    if sum(iterations(der)) > ITERATIONS_MAX:
        raise TooManyIterations(f"its password has more than {ITERATIONS_MAX:,} iterations: write it again with fewer")


def iterations(der: bytes, depth: int = 0) -> Iterator[int]:
    """Yield each number of iterations in encoded values that follow each other."""
    if depth > DEPTH_MAX:
        raise TooManyIterations(f"it has more than {DEPTH_MAX} values in each other: write it again")
    before = 0
    for value in values(der):
        tag, inner = value[0], content(value)
        if tag == INTEGER and before == OCTET_STRING and len(inner) <= COUNT_BYTES_MAX:
            yield int.from_bytes(inner)
        elif tag & CONSTRUCTED:
            yield from iterations(inner, depth + 1)
        elif tag == OCTET_STRING and inner[:1] == bytes([SEQUENCE]):
            yield from nested(inner, depth + 1)
        before = tag


def nested(der: bytes, depth: int) -> Iterator[int]:
    """Yield the numbers in an OCTET STRING, which may be random bytes that only begin as encoded values."""
    try:
        yield from iterations(der, depth)
    except TooManyIterations:
        raise
    except (IndexError, ValueError):
        return
