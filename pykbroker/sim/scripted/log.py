"""The log of a partition in a scripted cluster. All replicas have the same log, unless a test truncates it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

from pykbroker.core.errors import ApiError
from pykbroker.core.log.epochs import LeaderEpochs, OffsetAndEpoch
from pykbroker.core.log.producers import Marker, Producers
from pykbroker.core.log.transactions import AbortedTransaction
from pykbroker.core.log.verification import Verification
from wire.error_codes import ErrorCode
from wire.records.batch import LENGTH_OVERHEAD, Batch, batches
from wire.records.control import transaction_marker
from wire.records.record import Record, records

OFFSET, EPOCH = Struct(">q"), Struct(">i")
EPOCH_START = LENGTH_OVERHEAD
RECORDS_BYTES_MAX = 1 << 30


class ScriptedLog:
    """A log in memory. It checks CRCs, and the sequences of idempotent producers, as Kafka's logs do.

    `changed` is called at each append and truncation.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._batches: list[Batch] = []
        self._epochs, self.producers = LeaderEpochs(), Producers()
        self._aborted: list[AbortedTransaction] = []
        self.start_offset = self.end_offset = 0

    @property
    def records(self) -> list[Record]:
        """Return all records of data batches."""
        data = (batch for batch in self._batches if not batch.is_control)
        return [record for batch in data for record in records(batch, RECORDS_BYTES_MAX)]

    @property
    def committed_records(self) -> list[Record]:
        """Return the records of data batches that a consumer with read_committed gets."""
        return [
            record
            for batch in self._batches
            if not batch.is_control and batch.base_offset < self.last_stable_offset and not self._is_aborted(batch)
            for record in records(batch, RECORDS_BYTES_MAX)
        ]

    def _is_aborted(self, batch: Batch) -> bool:
        return batch.is_transactional and any(
            each.producer_id == batch.producer_id and each.first_offset <= batch.base_offset <= each.last_offset
            for each in self._aborted
        )

    def begin_epoch(self, leader_epoch: int) -> None:
        """Record that a leader epoch begins at the end of the log."""
        self._epochs.assign(leader_epoch, self.end_offset)

    def append(self, data: bytes, leader_epoch: int, verification: Verification | None = None) -> int:
        """Append the batch of a producer, and return its base offset, or that of the original if it is a duplicate.

        Raise ApiError if the batch is damaged, or if its sequence is not the next one of its producer.
        """
        (batch,) = batches(data, strict=True)
        if not batch.crc_ok():
            raise ApiError(ErrorCode.CORRUPT_MESSAGE)
        place = batch.producer_id, batch.producer_epoch, batch.base_sequence
        if batch.producer_id >= 0:
            original = self.producers.check(
                *place, batch.last_offset_delta, batch.is_transactional, verification=verification
            )
            if original is not None:
                return original.base_offset
        base_offset = self.end_offset
        self._add(batch, leader_epoch)
        if batch.producer_id >= 0:
            self.producers.remember(
                *place, base_offset, batch.last_offset_delta, batch.max_timestamp, batch.is_transactional
            )
        return base_offset

    def append_marker(self, marker: Marker, leader_epoch: int, timestamp: int) -> None:
        """Append the marker of a transaction. Raise ApiError if its producer epoch is fenced."""
        self.producers.check_marker(marker)
        offset = self.end_offset
        data = transaction_marker(
            commit=marker.commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=timestamp,
        )
        aborted = self.producers.remember_marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            offset,
            timestamp,
            aborted=not marker.commit,
            transaction_version=marker.transaction_version,
        )
        if aborted is not None:
            self._aborted.append(aborted)
        self._add(Batch.read(data), leader_epoch)

    @property
    def last_stable_offset(self) -> int:
        """Return the offset below which every transaction is decided."""
        return self.producers.transactions.last_stable_offset(self.end_offset)

    def aborted_since(self, offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with a marker from this offset on."""
        return [each for each in self._aborted if each.last_offset >= offset]

    def _add(self, batch: Batch, leader_epoch: int) -> None:
        self._epochs.assign(leader_epoch, self.end_offset)
        stamped = OFFSET.pack(self.end_offset) + bytes(batch.buffer[8:EPOCH_START]) + EPOCH.pack(leader_epoch)
        self._batches.append(Batch.read(stamped + bytes(batch.buffer[EPOCH_START + EPOCH.size :])))
        self.end_offset += batch.last_offset_delta + 1
        self._changed()

    def read(self, offset: int, end_offset: int, bytes_max: int) -> bytes:
        """Return whole batches from the one with this offset to `end_offset`, at least one if there is any."""
        found = b""
        for batch in self._from(offset):
            if batch.last_offset >= end_offset:
                break
            if found and len(found) + batch.size > bytes_max:
                break
            found += batch.buffer
        return found

    def _from(self, offset: int) -> Iterator[Batch]:
        return (batch for batch in self._batches if batch.last_offset >= offset)

    def truncate(self, end_offset: int) -> None:
        """Remove all batches from this offset on, as an unclean leader election does. It must be a batch's offset.

        The log must have no transactions.
        """
        self._batches = [batch for batch in self._batches if batch.last_offset < end_offset]
        self._epochs.truncate_end(end_offset)
        self.end_offset, self.producers = end_offset, Producers()
        for batch in self._batches:
            if batch.producer_id >= 0:
                place = batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.base_offset
                self.producers.remember(*place, batch.last_offset_delta, batch.max_timestamp, transactional=False)
        self._changed()

    def delete_before(self, offset: int) -> None:
        """Raise the log start offset, as DeleteRecords and retention do."""
        self._batches = [batch for batch in self._batches if batch.last_offset >= offset]
        self.start_offset = offset

    def end_of_epoch(self, leader_epoch: int) -> OffsetAndEpoch:
        """Return the largest known leader epoch up to this one, with its end offset; UNDEFINED if there is none."""
        return self._epochs.end_offset_for(leader_epoch, self.end_offset)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch that wrote an offset, or -1."""
        return self._epochs.epoch_of(offset)

    def first_since(self, timestamp: int) -> Record | None:
        """Return the first record with this timestamp or a later one."""
        return next((record for record in self.records if record.timestamp >= timestamp), None)
