"""The part of a log that validates a batch, checks its sequence, assigns its offsets and writes it."""

from __future__ import annotations

from struct import Struct, error

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker, WrittenBatch
from pykbroker.core.log.verification import Verification
from pykbroker.storage.log.flusher import Flusher
from pykbroker.storage.log.record_rules import RecordRules
from pykbroker.storage.log.rewrite import (
    FRAMED_AT_ONCE_BLOCKS_MAX,
    WALKED_AT_ONCE_BYTES_MAX,
    WALKED_AT_ONCE_RECORDS_MAX,
    LongWork,
    framed_codecs,
    opened_at_once,
    opens_records,
    packs,
    refusal,
    require_readable,
    retimed,
    rewritten,
    rewritten_at_once,
)
from pykbroker.storage.log.state import LogState
from pykbroker.storage.log.validate import (
    COMPRESSED_RECORDS_MAX,
    RECORD_BYTES_MIN,
    REFUSED_ATTRIBUTES,
    check_header,
    single_batch,
)
from pykbroker.storage.recovery.replay import remember
from pykbroker.storage.segments.config import LONG_MAX, LogConfig
from pykbroker.storage.segments.tail import KEEP_BYTES_MAX
from pykbroker.world.disk import Buffer
from pykbroker.world.off_loop import OffLoop
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    Batch,
    batches,
)
from wire.records.compression import Codec
from wire.records.control import transaction_marker
from wire.records.crc import crc32c

PLACE = Struct(">qii")
"""The fields base offset, batch length and leader epoch, which a broker overwrites. The CRC does not cover them."""
AFTER_PLACE = PLACE.size

CODEC_MAX = max(Codec)
UNEXPLAINED = "a batch was refused that breaks no rule"

unpack_header = HEADER.unpack_from


class Appended(msgspec.Struct, gc=False):
    """The result of an append: the offsets of the batch.

    `log_append_time_ms` is -1 unless the topic uses LogAppendTime.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int = -1
    duplicate: bool = False


class LogAppender:
    """The part of a log that appends batches. An append that raises an error has changed nothing."""

    __slots__ = (
        "_ahead_ms_max",
        "_at_once_bytes_max",
        "_at_once_records_max",
        "_batch_bytes_max",
        "_config",
        "_epochs",
        "_flusher",
        "_framed_codecs",
        "_off_loop",
        "_opened_bytes_max",
        "_rewrites",
        "_rules",
        "_segments",
        "_state",
        "_tail",
        "_traffic",
    )

    def __init__(self, state: LogState, flusher: Flusher, off_loop: OffLoop) -> None:
        self._state, self._flusher, self._off_loop = state, flusher, off_loop
        self._segments, self._tail, self._traffic, self._epochs = (
            state.segments,
            state.tail,
            state.traffic,
            state.epochs,
        )
        self.configure(state.opening.config)

    def configure(self, config: LogConfig) -> None:
        """Apply these topic configs to every later append."""
        self._config = config
        opens, self._rewrites = opens_records(config), config.log_append_time or packs(config)
        self._rules = RecordRules.of(config) if opens else None
        self._at_once_bytes_max = HEADER_BYTES + WALKED_AT_ONCE_BYTES_MAX if opens or self._rewrites else LONG_MAX
        self._at_once_records_max = WALKED_AT_ONCE_RECORDS_MAX if opens else LONG_MAX
        self._opened_bytes_max = min(config.decompressed_bytes_max, WALKED_AT_ONCE_BYTES_MAX)
        self._framed_codecs = framed_codecs(config)
        self._batch_bytes_max = min(config.max_message_bytes, config.segment_bytes)
        self._ahead_ms_max = LONG_MAX if config.log_append_time or opens else config.message_timestamp_after_max_ms

    def append(
        self, data: Buffer, leader_epoch: int, now_ms: int, verification: Verification | None = None
    ) -> Appended:
        """Validate a client's batch, assign its offsets and write it.

        Raise ApiError if the batch is refused, and OSError if the write fails. Raise LongWork if validation would take
        too long on the event loop. The caller then uses `open_off_loop` instead. A batch of at most KEEP_BYTES_MAX
        bytes is copied. The header of a larger batch is overwritten in `data` if `data` is writable. `verification`
        comes from `Producers.begin_verification`; the first batch of a transaction in this partition needs it
        (KIP-890).
        """
        size = len(data)
        try:
            (base, length, _, magic, crc, attributes, delta, base_ms, max_ms, producer_id, epoch, sequence, count) = (
                unpack_header(data)
            )
        except error:
            raise ApiError(ErrorCode.INVALID_RECORD, "the request holds no whole record batch") from None
        # Kafka allows one batch in a produced partition. Whatever else the bytes are, `single_batch` says it.
        if length + LENGTH_OVERHEAD != size:
            return self.append(single_batch(data), leader_epoch, now_ms, verification)
        # A batch above `max.message.bytes` is refused below by its header, which needs no thread.
        if self._at_once_bytes_max < size <= self._batch_bytes_max or count > self._at_once_records_max:
            raise LongWork
        # One condition for all that a header can be refused for: a good batch, which is nearly each one, pays for
        # comparisons alone. Which rule was broken is found out only afterwards, by `check_header`, which raises.
        if (
            magic != MAGIC
            or base
            or count <= 0
            or delta + 1 != count
            or size > self._batch_bytes_max
            or attributes & REFUSED_ATTRIBUTES > CODEC_MAX
            or max_ms - now_ms > self._ahead_ms_max
            or (sequence < 0 <= producer_id)
            or crc32c(data, CRC_START) != crc
            or count > COMPRESSED_RECORDS_MAX
            or (count * RECORD_BYTES_MIN > size and not attributes & CODEC_MASK)
        ):
            check_header(data, self._config, now_ms)
            raise AssertionError(UNEXPLAINED)
        # A consumer of Kafka's cannot pass a batch that it cannot decompress.
        if (codec := attributes & CODEC_MASK) and codec in self._framed_codecs:
            require_readable(codec, data, FRAMED_AT_ONCE_BLOCKS_MAX)
        if self._rewrites:
            batch = rewritten_at_once(data, self._config, now_ms)
            return self.append_opened(batch, leader_epoch, verification)
        if (rules := self._rules) is not None:
            youngest_ms = self._validated(rules, codec, data, count, base_ms, now_ms)
            # Retention and the time index believe the header, so a header that lies is written anew. Kafka does the
            # same.
            if youngest_ms != max_ms:
                return self.append_opened(retimed(Batch.read(data), youngest_ms), leader_epoch, verification)
        # Without a producer id there is nothing to check and nothing to remember.
        if producer_id < 0:
            base = self._write(data, size, length, delta, max_ms, leader_epoch)
            return Appended(base, base + delta)
        transactional = attributes & TRANSACTIONAL != 0
        producers = self._state.producers
        written = producers.check(producer_id, epoch, sequence, delta, transactional, verification)
        if written is not None:
            return duplicate(written)
        # The write comes first: if it fails, the producer must be able to repeat the same sequence number.
        base = self._write(data, size, length, delta, max_ms, leader_epoch)
        producers.remember(producer_id, epoch, sequence, base, delta, max_ms, transactional)
        return Appended(base, base + delta)

    def _validated(self, rules: RecordRules, codec: int, data: Buffer, count: int, base_ms: int, now_ms: int) -> int:
        """Validate the records of a batch, and return their largest timestamp, as the header must have it."""
        bytes_max = self._opened_bytes_max
        try:
            records = opened_at_once(codec, data, bytes_max) if codec else bytes(data[HEADER_BYTES:])
            return rules.youngest(records, count, base_ms, now_ms, WALKED_AT_ONCE_RECORDS_MAX)
        except DecodeError as damage:
            raise refusal(damage, bytes_max, self._config) from damage

    def _write(self, data: Buffer, size: int, length: int, delta: int, max_timestamp: int, leader_epoch: int) -> int:
        """Write one batch at the log end offset and return that offset."""
        state = self._state
        base = state.log_end_offset
        last = base + delta
        segment = self._segments.active
        # `refuses` decides. The comparisons before it only spare the call for the batches that surely fit.
        if (
            segment.size + size > segment.size_max or max_timestamp > segment.timestamp_max or last > segment.offset_max
        ) and segment.refuses(size, last, max_timestamp):
            segment = state.roll()
        chunk: bytes | None = None
        # A small batch is copied once, for the file and for the tail, from which consumers that keep up are served.
        if size <= KEEP_BYTES_MAX:
            data = chunk = PLACE.pack(base, length, leader_epoch) + data[AFTER_PLACE:]
        elif isinstance(data, bytes) or (isinstance(data, memoryview) and data.readonly):
            data = PLACE.pack(base, length, leader_epoch) + data[AFTER_PLACE:]
        else:
            # The buffer belongs to the request and is read by nobody else, so a large batch is patched where it lies.
            PLACE.pack_into(data, 0, base, length, leader_epoch)
        segment.file.append(data)
        self._traffic.bytes_in += size
        self._tail.add(base, segment.size, chunk)
        segment.note(size, last, max_timestamp)
        # From this line on the batch is in the log: an error above has changed nothing that a reader sees.
        state.log_end_offset = last + 1
        if leader_epoch != self._epochs.latest:
            self._flusher.begin_epoch(leader_epoch, base)
        return base

    async def open_off_loop(self, data: Buffer, now_ms: int) -> Batch:
        """Validate and rewrite a batch in a thread, and return it for `append_opened`.

        `data` must not change during the call. Other tasks may change the log during the call.
        """
        return await self._off_loop(checked_and_rewritten, data, self._config, now_ms)

    def append_opened(self, batch: Batch, leader_epoch: int, verification: Verification | None = None) -> Appended:
        """Append the batch that `open_off_loop` returned.

        Raise ApiError if the batch is refused, and OSError if the write fails.
        """
        if batch.producer_id >= 0:
            written = self._state.producers.check(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.last_offset_delta,
                batch.is_transactional,
                verification,
            )
            if written is not None:
                return duplicate(written)
        return self._append_trusted(batch, leader_epoch)

    def append_as_leader(self, data: Buffer, leader_epoch: int, verification: Verification | None = None) -> Appended:
        """Append a batch that this broker created: control, coordinator or metadata records.

        Raise ApiError if the producer is fenced, or if the batch would begin a transaction in this partition without
        `verification`.
        """
        _, length, _, _, _, attributes, delta, _, max_timestamp, producer_id, epoch, _, _ = unpack_header(data)
        if producer_id >= 0:
            # Offsets that are committed in a transaction may begin it in this partition (KIP-890).
            if attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL:
                self._state.producers.check_verified(producer_id, epoch, verification)
            return self._append_trusted(Batch.read(data), leader_epoch)
        base = self._write(data, len(data), length, delta, max_timestamp, leader_epoch)
        return Appended(base, base + delta)

    def append_marker(self, marker: Marker, leader_epoch: int, now_ms: int) -> Appended:
        """Append a transaction marker. Raise ApiError if the producer or the coordinator of the marker is fenced."""
        self._state.producers.check_marker(marker)
        batch = transaction_marker(
            commit=marker.commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=now_ms,
        )
        return self._append_trusted(Batch.read(batch), leader_epoch, marker.transaction_version)

    def _append_trusted(self, batch: Batch, leader_epoch: int, transaction_version: int = 0) -> Appended:
        base = self._write(
            batch.buffer, batch.size, batch.batch_length, batch.last_offset_delta, batch.max_timestamp, leader_epoch
        )
        if batch.producer_id >= 0:
            # `_write` has copied a small batch, so that the offset and the epoch may be missing in `batch`.
            placed = msgspec.structs.replace(batch, base_offset=base, leader_epoch=leader_epoch)
            self._remember(placed, transaction_version)
        return Appended(base, base + batch.last_offset_delta, batch.max_timestamp if batch.is_log_append_time else -1)

    def append_stored(self, data: Buffer) -> Appended:
        """Append batches with the offsets and epochs that their leader assigned, with one write for each segment.

        Raise CORRUPT_MESSAGE, and append nothing, if a batch is damaged or does not follow the log. Raise OSError if a
        write fails; the batches of earlier segments are appended then.
        """
        try:
            found = list(batches(data, strict=True))
        except DecodeError as damage:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from damage
        following = self._state.log_end_offset
        # All batches are checked before the first is written, so that a damaged response leaves the log as it was.
        # Offsets may have gaps, since the leader may have compacted, but never go back.
        for batch in found:
            if batch.base_offset < following or not batch.crc_ok():
                raise ApiError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"batch of offset {batch.base_offset} does not follow {following}, or is damaged",
                )
            following = batch.last_offset + 1
        if not found:
            return Appended(-1, -1)
        begin = position = 0
        run: list[Batch] = []
        for batch in found:
            pending = position - begin
            # A follower rolls by its own rules, so its segments need not begin where the leader's do.
            if self._segments.active.refuses(batch.size, batch.last_offset, batch.max_timestamp, pending):
                self._append_run(memoryview(data)[begin:position], run)
                self._state.roll()
                begin, run = position, []
            run.append(batch)
            position += batch.size
        self._append_run(memoryview(data)[begin:position], run)
        return Appended(found[0].base_offset, found[-1].last_offset)

    def _append_run(self, data: memoryview, run: list[Batch]) -> None:
        """Append adjacent batches to the active segment with one write."""
        if not run:
            return
        state, segment = self._state, self._segments.active
        segment.file.append(data)
        self._traffic.bytes_in += len(data)
        for batch in run:
            if batch.base_offset != state.log_end_offset:
                self._tail.clear()  # the tail holds contiguous offsets only
            chunk = bytes(batch.buffer) if batch.size <= KEEP_BYTES_MAX else None
            self._tail.add(batch.base_offset, segment.size, chunk)
            segment.note_batch(batch)
            state.log_end_offset = batch.last_offset + 1
            if batch.leader_epoch != self._epochs.latest:
                self._flusher.begin_epoch(batch.leader_epoch, batch.base_offset)
            self._remember(batch)

    def _remember(self, batch: Batch, transaction_version: int = 0) -> None:
        if aborted := remember(self._state.producers, batch, transaction_version):
            self._segments.active.aborted.append(aborted)


def duplicate(written: WrittenBatch) -> Appended:
    """Return the result for a retried batch: the offsets and the time of the first append."""
    return Appended(written.base_offset, written.last_offset, written.timestamp, True)


def checked_and_rewritten(data: Buffer, config: LogConfig, now_ms: int) -> Batch:
    """Validate a batch and rewrite it as the topic's configs require. The function runs in a thread."""
    data = single_batch(data)
    check_header(data, config, now_ms)
    batch = Batch.read(data)
    if batch.codec in framed_codecs(config):
        require_readable(batch.codec, data, LONG_MAX)
    return rewritten(batch, config, now_ms)
