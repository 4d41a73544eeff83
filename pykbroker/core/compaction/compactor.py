"""The state machine of a compaction round: it notes the keys of the dirty part, then compacts the log.

1. The order of messages is `Begin`; `Note` for each piece of the dirty part; then, from the log's start, `SegmentGroup`
   and `Compact` for each piece. A piece is a byte string that begins with a batch and may end within one. Only its
   whole batches are read.
2. The number of keys is bounded. When the bound is reached, the round ends with the current batch.
3. The state machine runs in another process than the broker.
"""

from __future__ import annotations

import msgspec

from pykbroker.core.compaction.batch import emptied, rebuilt
from pykbroker.core.compaction.places import RecordPlace, places
from pykbroker.core.compaction.transactions import PassedTransactions
from pykbroker.core.log.transactions import AbortedTransaction
from wire.declare import Buffer
from wire.errors import DecodeError
from wire.records.batch import Batch, batches
from wire.records.compression import decompress

BATCH_BYTES_MAX = 64 << 20
"""The largest size of a decompressed batch."""


class Begin(msgspec.Struct, tag=True):
    """The start of a round over the offsets of a log below `end_offset`. Keys are noted from `first_dirty` on.

    `aborted` are all aborted transactions with data in the log.
    """

    first_dirty: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    keys_max: int
    aborted: list[AbortedTransaction]


class Note(msgspec.Struct, tag=True):
    """A piece of the dirty part of the log, whose keys are noted."""

    data: bytes


class SegmentGroup(msgspec.Struct, tag=True):
    """The message that the next pieces come from segments that are merged into one.

    `producers` maps each live producer id to its last data offset (or -1) and its epoch.
    """

    producers: dict[int, tuple[int, int]]


class Compact(msgspec.Struct, tag=True):
    """A piece of the log, to be compacted."""

    data: bytes


class Noted(msgspec.Struct):
    """The reply to Note: the number of bytes that were read. All keys up to `noted_offset` are noted.

    `damage` describes a corrupt batch.
    """

    taken: int = 0
    noted_offset: int = -1
    is_full: bool = False
    damage: str | None = None


class Compacted(msgspec.Struct):
    """The reply to Compact: the number of bytes that were read, and the data that remains.

    `batches` has (size, last offset, max timestamp) for each remaining batch. `aborted` has the aborted transactions
    whose markers stay and that had data in the log. `damage` describes a corrupt batch.
    """

    taken: int = 0
    data: bytes = b""
    batches: list[tuple[int, int, int]] = []
    aborted: list[AbortedTransaction] = []
    damage: str | None = None


CompactionRequest = Begin | Note | SegmentGroup | Compact


class Compactor:
    """The compaction process's end of the pipe: it replies to each message with one message."""

    def __init__(self) -> None:
        self._decoder, self._encoder = msgspec.msgpack.Decoder(CompactionRequest), msgspec.msgpack.Encoder()
        self._round: Round | None = None

    def handle(self, message: bytes) -> bytes:
        """Handle an encoded CompactionRequest and return the encoded reply.

        Raise ValueError for a request before `Begin`.
        """
        request = self._decoder.decode(message)
        if isinstance(request, Begin):
            self._round = Round(request)
            return self._encoder.encode(None)
        if self._round is None:
            raise ValueError("a round must start with Begin")
        if isinstance(request, Note):
            return self._encoder.encode(self._round.note(request.data))
        if isinstance(request, Compact):
            return self._encoder.encode(self._round.compact(request.data))
        self._round.producers = request.producers
        return self._encoder.encode(None)


class Round:
    """The state of one log's compaction round."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self.producers: dict[int, tuple[int, int]] = {}
        self._newest: dict[bytes, int] = {}
        self._noted_offset = begin.first_dirty - 1
        self._noting = PassedTransactions(one for one in begin.aborted if one.last_offset >= begin.first_dirty)
        self._passing = PassedTransactions(begin.aborted)

    def note(self, data: bytes) -> Noted:
        """Note the keys of the whole batches in `data`."""
        found, damage = _whole(data)
        taken = 0
        try:
            for batch in found:
                if len(self._newest) >= self._begin.keys_max:
                    return Noted(taken, self._noted_offset, is_full=True)
                self._note(batch)
                taken += batch.size
                self._noted_offset = max(self._noted_offset, batch.last_offset)
        except DecodeError as error:
            damage = str(error)
        return Noted(taken, self._noted_offset, damage=damage)

    def _note(self, batch: Batch) -> None:
        if batch.is_control:
            self._noting.is_unneeded(batch)
        elif not self._noting.is_aborted(batch) and batch.count:
            base, first, newest = batch.base_offset, self._begin.first_dirty, self._newest
            for one in places(_content(batch), batch.count):
                if one.key is not None and base + one.offset_delta >= first:
                    newest[one.key] = base + one.offset_delta

    def compact(self, data: bytes) -> Compacted:
        """Return what remains of the whole batches in `data`."""
        found, damage = _whole(data)
        result, left = Compacted(damage=damage), []
        try:
            for batch in found:
                result.taken += batch.size
                kept = self._compacted(batch)
                if kept is not None:
                    left.append(kept)
                    header = Batch.read(kept)
                    result.batches.append((header.size, header.last_offset, header.max_timestamp))
        except DecodeError as error:
            result.damage = str(error)
        result.data, result.aborted = b"".join(left), self._passing.take_kept()
        return result

    def _compacted(self, batch: Batch) -> Buffer | None:
        """Return what remains of a batch: the batch itself, fewer records, its bare header, or None."""
        now_ms = self._begin.now_ms
        expired = batch.has_delete_horizon and batch.base_timestamp <= now_ms
        is_unneeded = False
        if batch.is_control:
            is_unneeded = self._passing.is_unneeded(batch)
            is_deleted = is_unneeded and expired
        else:
            is_deleted = self._passing.is_aborted(batch)
        if is_deleted or not batch.count:
            return emptied(batch) if self._must_stay(batch) else None
        data = _content(batch)
        all_of_it = places(data, batch.count)
        kept = all_of_it if batch.is_control else self._kept(batch.base_offset, all_of_it, expired)
        if not kept:
            return emptied(batch) if self._must_stay(batch) else None
        # From this round on, delete.retention.ms passes for tombstones and unneeded markers (KIP-534).
        sets_horizon = not batch.has_delete_horizon and (is_unneeded or not all(one.has_value for one in kept))
        if len(kept) == len(all_of_it) and not sets_horizon:
            return batch.buffer
        return rebuilt(batch, data, kept, now_ms + self._begin.delete_retention_ms if sets_horizon else None)

    def _kept(self, base: int, all_of_it: list[RecordPlace], expired: bool) -> list[RecordPlace]:
        """Return the records that stay: those above the noted offset, and the newest of each key.

        With `expired`, tombstones do not stay.
        """
        newest, noted = self._newest.get, self._noted_offset
        return [
            one
            for one in all_of_it
            if (offset := base + one.offset_delta) > noted
            or (one.key is not None and (one.has_value or not expired) and offset >= newest(one.key, -1))
        ]

    def _must_stay(self, batch: Batch) -> bool:
        """Whether an emptied batch has a live producer's last sequence or epoch, or is the round's last batch."""
        last = self.producers.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is not None:
            data_offset, epoch = last
            if (
                batch.last_offset == data_offset
                if data_offset >= 0
                else (batch.is_control and batch.producer_epoch == epoch)
            ):
                return True
        return batch.last_offset + 1 == self._begin.end_offset


def _content(batch: Batch) -> bytes:
    return bytes(decompress(batch.codec, batch.payload, BATCH_BYTES_MAX))


def _whole(data: bytes) -> tuple[list[Batch], str | None]:
    """Return the whole batches at the start of `data`, and a description of the corrupt batch after them, or None."""
    found: list[Batch] = []
    try:
        for batch in batches(data):
            if not batch.crc_ok():
                return found, f"the batch at offset {batch.base_offset} does not match its checksum {batch.crc:08x}"
            found.append(batch)
    except DecodeError as error:
        return found, str(error)
    return found, None
