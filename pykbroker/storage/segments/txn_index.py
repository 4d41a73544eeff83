"""The aborted transactions whose markers stand in one segment, as a file. Without any there is no file.

Shape: 34-byte entries: version i16 = 0, producer id i64, first offset i64, last offset i64 (the marker's), last stable
offset i64. Big-endian, last offsets rising. Written for Kafka; `rebuild` reads the log instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from pykbroker.core.log.transactions import AbortedTransaction

ENTRY = Struct(">hqqqq")
VERSION = 0


def encode(aborted: Iterable[AbortedTransaction]) -> bytes:
    """The file."""
    return b"".join(ENTRY.pack(VERSION, *one) for one in aborted)
