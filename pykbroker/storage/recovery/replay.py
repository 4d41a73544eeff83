"""The replay of a stored batch into the producers' state. Appends, replication and recovery use it."""

from __future__ import annotations

from struct import Struct, error

from pykbroker.core.log.producers import Producers
from pykbroker.core.log.transactions import AbortedTransaction
from pykbroker.storage.files.errors import CorruptLog
from wire.errors import DecodeError
from wire.records.batch import Batch
from wire.records.record import records

MARKER_KEY = Struct(">hh")
MARKER_VALUE = Struct(">hi")
MARKER_BYTES_MAX = 4096
ABORT, COMMIT = 0, 1


def remember(producers: Producers, batch: Batch, transaction_version: int = 0) -> AbortedTransaction | None:
    """Apply a batch of the log to `producers`. If the batch is an abort marker, return the transaction that it ends.

    A leader that appends a marker knows its transaction version. Raise DecodeError if the record of a control batch is
    invalid.
    """
    if batch.producer_id < 0:
        return None
    if not batch.is_control:
        producers.remember(
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.base_offset,
            batch.last_offset_delta,
            batch.max_timestamp,
            batch.is_transactional,
        )
        return None
    return _end_transaction(producers, batch, transaction_version)


def recall(producers: Producers, batch: Batch) -> AbortedTransaction | None:
    """Apply a batch read from a file to `producers`, as `remember` does.

    Raise CorruptLog if a control batch is invalid.
    """
    try:
        return remember(producers, batch)
    except DecodeError as damage:
        raise CorruptLog(f"the control batch of offset {batch.base_offset}: {damage}") from None


def _end_transaction(producers: Producers, batch: Batch, transaction_version: int) -> AbortedTransaction | None:
    """End the transaction of a marker. Return the transaction if it was aborted.

    The marker's key has version i16 and type i16 (0 abort, 1 commit). Its value has version i16 and coordinator epoch
    i32.
    """
    for record in records(batch, MARKER_BYTES_MAX):
        try:
            # A record without a key gets the type -1, which is no marker.
            _, kind = MARKER_KEY.unpack_from(record.key or b"\0\0\xff\xff")
            if kind not in (ABORT, COMMIT) or record.value is None:
                continue
            _, coordinator_epoch = MARKER_VALUE.unpack_from(record.value)
        except error as short:
            raise DecodeError(f"no marker: {short}") from None
        return producers.remember_marker(
            batch.producer_id,
            batch.producer_epoch,
            coordinator_epoch,
            record.offset,
            record.timestamp,
            kind == ABORT,
            transaction_version,
        )
    return None
