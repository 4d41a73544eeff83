"""`bootstrap.checkpoint`: the records that a directory is formatted with, read when its metadata log is still empty."""

from __future__ import annotations

from collections.abc import Sequence

from pykbroker.core.errors import StartError
from pykbroker.core.metadata.context import Record
from pykbroker.quorum.driver import BATCH_BYTES_MAX
from pykbroker.world.disk import Buffer
from wire.errors import DecodeError
from wire.records.batch import batches
from wire.records.builder import BatchBuilder
from wire.records.control import kraft_batch
from wire.records.record import records
from wire.stored.control import SnapshotFooterRecord, SnapshotHeaderRecord
from wire.stored.metadata import decode_metadata, encode_metadata

BOOTSTRAP_FILE = "bootstrap.checkpoint"


def bootstrap_content(formatted: Sequence[Record], now_ms: int) -> bytes:
    """The file: a snapshot of these records."""
    builder = BatchBuilder(base_offset=1, leader_epoch=0)
    for record in formatted:
        builder.append(None, encode_metadata(record, 0), timestamp=now_ms)
    footer_offset = 1 + len(formatted)
    return b"".join((
        kraft_batch([SnapshotHeaderRecord()], base_offset=0, leader_epoch=0, timestamp=now_ms), builder.build(),
        kraft_batch([SnapshotFooterRecord()], base_offset=footer_offset, leader_epoch=0, timestamp=now_ms)))


def read_bootstrap(content: Buffer) -> list[Record]:
    """The records of the file; `StartError` when it is damaged."""
    try:
        return [decode_metadata(record.value or b"")
                for batch in batches(content, strict=True) if not batch.is_control
                for record in records(batch, BATCH_BYTES_MAX)]
    except DecodeError as error:
        raise StartError(f"{BOOTSTRAP_FILE} is damaged ({error}): remove it, and the cluster begins with the features "
                         "of this version") from error
