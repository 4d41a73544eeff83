"""The file `bootstrap.checkpoint`: the first records of a new cluster, read while the metadata log is empty."""

from __future__ import annotations

from collections.abc import Sequence

from pykbroker.core.metadata.record import Record, read_record, write_record
from pykbroker.quorum.snapshot_file import decode_snapshot, encode_snapshot
from pykbroker.world.disk import Buffer

BOOTSTRAP_FILE = "bootstrap.checkpoint"


def bootstrap_content(formatted: Sequence[Record], now_ms: int) -> bytes:
    """Return the content of the file: a snapshot of these records."""
    return b"".join(encode_snapshot([write_record(record, 0) for record in formatted], 0, 0, now_ms))


def read_bootstrap(content: Buffer) -> list[Record]:
    """Return the records of the file. Raise DecodeError if the file is damaged."""
    return [read_record(value) for value in decode_snapshot(content).values]
