"""The conversion between the records of a coordinator and the record batches of its log.

Records of the same producer, or of none, share a batch. A transaction marker has a batch of its own. A record of an
unknown type is skipped, since a newer broker may have written it; it stays in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pykbroker.core.coordinator.record import CoordinatorRecord, LogRecord, StoredRecord
from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.core.outcome import Entry
from pykbroker.core.steps import Steps
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder
from wire.records.compression import Codec
from wire.records.control import ControlType, control_records
from wire.records.record import Record, RecordCursor, content
from wire.stored.control import EndTxnMarker
from wire.stored.framing import (
    Catalogue,
    RecordRun,
    UnknownRecordType,
    decode_key,
    decode_versioned,
    encode_key,
    encode_versioned,
)

RECORD_OVERHEAD_BYTES = 40
"""An upper bound of a record's size without its key and value."""
BATCH_BYTES_MAX = 64 << 20
"""The size of the largest decompressed batch that a coordinator reads."""
OPENED_BYTES_MAX = 1 << 20
"""The decompressed bytes that one call of `opened` collects before it stops."""

RunReader = Callable[[RecordCursor], RecordRun | None]
"""A function that reads the next records as one run, if they are similar.

It returns None to have them decoded by the catalogue.
"""
FramedBatch = tuple[bytes | Marker, list[LogRecord]]
"""A batch and its records. A marker stands for its own batch, which the log builds."""


def no_runs(cursor: RecordCursor) -> None:
    """Return None: every record is decoded by the catalogue."""


def opened(found: Iterable[Batch]) -> list[bytes | DecodeError]:
    """Return the decompressed records of the first batches, at least one.

    A DecodeError stands for a damaged batch and is last.

    The error is created anew, since the traceback of the original one would keep the decompressed data in memory.
    """
    contents: list[bytes | DecodeError] = []
    size = 0
    for batch in found:
        try:
            contents.append(data := b"" if batch.is_control else content(batch, BATCH_BYTES_MAX))
        except DecodeError as error:
            contents.append(DecodeError(str(error)))
            break
        size += len(data)
        if size >= OPENED_BYTES_MAX:
            break
    return contents


class Batches:
    """The encoder and decoder of one topic's batches.

    `base_sequence` is 0 for Kafka's group coordinator and -1 for others.
    """

    def __init__(
        self, catalogue: Catalogue, base_sequence: int = -1, codec: Codec = Codec.NONE, read_run: RunReader = no_runs
    ) -> None:
        self._catalogue, self._base_sequence, self._codec = catalogue, base_sequence, codec
        self._read_run = read_run

    def write(
        self, decided: Sequence[LogRecord], wall_ms: int, bytes_max: int, *, split: bool
    ) -> Steps[list[FramedBatch]]:
        """Return the records as batches. With `split`, a batch ends before it would exceed `bytes_max`.

        Raise ApiError if a batch would exceed `bytes_max` in any case.
        """
        written: list[FramedBatch] = []
        builder, held = None, list[LogRecord]()
        for record in decided:
            yield
            if isinstance(record, Marker):
                if builder is not None:
                    written.append((built(builder, bytes_max), held))
                written.append((record, [record]))
                builder = None
                continue
            key = encode_key(record.key)
            value = None if record.value is None else encode_versioned(record.value, record.version)
            if builder is not None and (
                record.producer_id != builder.producer_id
                or record.producer_epoch != builder.producer_epoch
                or (split and builder.size + len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES > bytes_max)
            ):
                written.append((built(builder, bytes_max), held))
                builder = None
            if builder is None:
                builder, held = self._builder(record), []
            builder.append(key, value, (), wall_ms)
            held.append(record)
        if builder is not None:
            written.append((built(builder, bytes_max), held))
        return written

    def _builder(self, record: CoordinatorRecord) -> BatchBuilder:
        return BatchBuilder(
            self._codec,
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
            base_sequence=self._base_sequence,
            transactional=record.producer_id >= 0,
        )

    def read(self, batch: Batch, data: bytes, start_offset: int = 0) -> Iterator[Entry[StoredRecord]]:
        """Yield the decoded records of a batch from `start_offset` on. Raise DecodeError if the batch is damaged.

        `data` is the result of `opened` for the batch.
        """
        if batch.is_control:
            for control in control_records(batch):
                if control.offset >= start_offset and isinstance(control.value, EndTxnMarker):
                    marker = Marker(
                        batch.producer_id,
                        batch.producer_epoch,
                        control.type == ControlType.COMMIT,
                        control.value.coordinator_epoch,
                    )
                    yield Entry(control.offset, marker, batch.producer_id, batch.producer_epoch)
            return
        cursor = RecordCursor(batch, data)
        # A run has all of its records, also those before `start_offset`.
        read_run = self._read_run if batch.base_offset >= start_offset else no_runs
        while cursor.left:
            run = read_run(cursor)
            if run is not None:
                yield Entry(batch.base_offset, run, batch.producer_id, batch.producer_epoch)
                continue
            record = cursor.take()
            known = self._record(batch, record) if record.offset >= start_offset else None
            if known is not None:
                yield Entry(record.offset, known, batch.producer_id, batch.producer_epoch)
        cursor.finish()

    def _record(self, batch: Batch, record: Record) -> CoordinatorRecord | None:
        try:
            key = decode_key(self._catalogue, record.key or b"")
        # A newer version has written the record, before a downgrade (KIP-915).
        except UnknownRecordType:
            return None
        if record.value is None:
            return CoordinatorRecord(key, None, 0, batch.producer_id, batch.producer_epoch)
        value = decode_versioned(self._catalogue[key.record_type][1], record.value)
        version = int.from_bytes(record.value[:2], "big")
        return CoordinatorRecord(key, value, version, batch.producer_id, batch.producer_epoch)


def built(builder: BatchBuilder, bytes_max: int) -> bytes:
    """Return the finished batch. Raise ApiError if it has more than `bytes_max` bytes."""
    batch = builder.build()
    if len(batch) > bytes_max:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"records of one request exceed {bytes_max} bytes")
    return batch
