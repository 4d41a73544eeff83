"""Records without keys and headers that have one timestamp, as producers write them, decoded as a column of values.

Records of this kind have only one encoding. The values are therefore cut out at the places where they should be, and
are right if their encoding is equal to the bytes. That takes a third of the time that reading each field takes.
"""

from typing import NamedTuple

from wire.records.columns import encode_records
from wire.records.zigzag import varint

_BORDERS = (1 << 6, 1 << 13, 1 << 20, 1 << 27, 1 << 34)
"""The first offset delta whose varint is longer than that of all before it."""
_SHORT = 65  # a value of 63 bytes and its length: up to here, the length has one byte


class KeylessRun(NamedTuple):
    """The values of consecutive records, and the position after them."""

    values: list[bytes]
    end: int


def keyless_run_at(data: bytes, pos: int, timestamp_delta: int, delta: int, records_max: int) -> KeylessRun | None:
    """Return up to `records_max` records from the one at `pos` on, up to one of another shape. Return None without any.

    The records have this timestamp delta, and consecutive offset deltas from `delta` on.
    """
    head = b"\0" + varint(timestamp_delta) + varint(delta) + b"\1"  # attributes to null key
    if not data.startswith(head, pos + 1 if data[pos] < 128 else pos + 2):
        return None
    border = next(border for border in _BORDERS if delta < border)
    fixed = len(head)
    values: list[bytes] = []
    append, start = values.append, pos
    try:
        for _ in range(min(records_max, border - delta)):
            size = data[pos]
            if size < 128:
                pos += 1
                end = pos + (size >> 1)
            else:
                size, pos = size >> 1 & 63 | data[pos + 1] << 6, pos + 2
                end = pos + size
            pos += fixed
            append(data[pos + 1 if end - pos < _SHORT + 1 else pos + 2 : end - 1])
            pos = end
    except IndexError:
        return None
    encoded = encode_records(values, timestamp_delta=timestamp_delta, first=delta)
    return KeylessRun(values, pos) if encoded == data[start:pos] else _before_difference(data, start, values, encoded)


def _before_difference(data: bytes, start: int, values: list[bytes], encoded: bytes) -> KeylessRun | None:
    """Return the records before the first one that differs from its encoding, or None if that is the first."""
    low, high = start, min(start + len(encoded), len(data))
    while low < high:
        middle = (low + high) // 2 + 1
        if data[low:middle] == encoded[low - start : middle - start]:
            low = middle
        else:
            high = middle - 1
    pos = start
    for count in range(len(values)):  # the sizes of the records before the difference are right
        size = data[pos]
        end = pos + 1 + (size >> 1) if size < 128 else pos + 2 + (size >> 1 & 63 | data[pos + 1] << 6)
        if end > low:
            return KeylessRun(values[:count], pos) if count else None
        pos = end
    return None
