"""The aborted transactions whose markers stand in one segment, as a file. Without any there is no file.

Shape: 34-byte entries: version i16 = 0, producer id i64, first offset i64, last offset i64 (the marker's), last stable
offset i64. Big-endian, last offsets rising.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from struct import Struct

from pykbroker.core.replication.transactions import AbortedTransaction
from pykbroker.storage.indexes import CorruptIndex

ENTRY = Struct(">hqqqq")
VERSION = 0


def encode(aborted: Iterable[AbortedTransaction]) -> bytes:
    """The file."""
    return b"".join(ENTRY.pack(VERSION, *one) for one in aborted)


def decode(data: bytes, base_offset: int, next_offset: int) -> list[AbortedTransaction]:
    """The entries. CorruptIndex: ragged, not rising, or markers outside of base_offset..next_offset."""
    if len(data) % ENTRY.size:
        raise CorruptIndex(f"{len(data)} bytes are no whole number of {ENTRY.size}-byte entries")
    found = []
    for version, *fields in ENTRY.iter_unpack(data):
        one = AbortedTransaction(*fields)
        if version != VERSION or one.first_offset >= one.last_offset or one.last_stable_offset > one.last_offset + 1:
            raise CorruptIndex(f"version {version}: {one}")
        found.append(one)
    markers = [base_offset - 1, *(one.last_offset for one in found), next_offset]
    if not all(a < b for a, b in pairwise(markers)):
        raise CorruptIndex(f"{len(found)} markers do not all rise from {base_offset} to {next_offset}")
    return found
