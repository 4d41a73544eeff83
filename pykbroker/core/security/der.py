"""The encoding DER of ASN.1, as far as certificates need it (X.690)."""

from __future__ import annotations

from collections.abc import Iterator


def values(der: bytes) -> Iterator[bytes]:
    """Yield the encoded values that follow each other. Raise ValueError if the last one is cut off."""
    pos = 0
    while pos < len(der):
        start, size = content_at(der, pos)
        if start + size > len(der):
            raise ValueError("a value is cut off")
        yield der[pos : start + size]
        pos = start + size


def content(der: bytes) -> bytes:
    """Return the content of one encoded value."""
    return der[content_at(der, 0)[0] :]


def content_at(der: bytes, pos: int) -> tuple[int, int]:
    """Return where the content of the value at `pos` begins, and its size."""
    size = der[pos + 1]
    if size < 0x80:
        return pos + 2, size
    start = pos + 2 + (size & 0x7F)
    return start, int.from_bytes(der[pos + 2 : start])


def oid(encoded: bytes) -> str:
    """Return an object identifier in numbers and dots."""
    numbers, number = list[int](), 0
    for byte in encoded:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
