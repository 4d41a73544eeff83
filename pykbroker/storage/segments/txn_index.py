"""The transaction index: the aborted transactions whose markers are in one segment.

A segment without aborted transactions has no such file. The file has 34-byte entries: version i16 = 0, producer id i64,
first offset i64, last offset i64 (the marker's), last stable offset i64. Numbers are big-endian, and last offsets
ascend. The file is written only for Kafka, in case it opens the directory later. pykbroker reads the log instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from pykbroker.core.log.transactions import AbortedTransaction

ENTRY = Struct(">hqqqq")
VERSION = 0


def encode(aborted: Iterable[AbortedTransaction]) -> bytes:
    """Return the content of a .txnindex file."""
    return b"".join(ENTRY.pack(VERSION, *one) for one in aborted)
