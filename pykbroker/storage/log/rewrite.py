"""The rewriting of a producer's batch, and the validation of its records, as the topic's configs require.

The functions are pure, so that a thread may run them. An append takes long only for decompression, compression and the
validation of records.
"""

from __future__ import annotations

from msgspec.structs import replace

from pykbroker.core.errors import ApiError, KeysRequired
from pykbroker.storage.log.record_rules import RecordRules
from pykbroker.storage.segments.config import LONG_MAX, LogConfig
from pykbroker.world.disk import Buffer
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.records.batch import HEADER_BYTES, Batch
from wire.records.builder import recompress, sealed, stamped
from wire.records.compression import Codec, TooLarge, decompress, room_for
from wire.records.framing import TooManyBlocks, check_framing
from wire.records.record import NoKeys, content
from wire.records.walk import TooLong

CODECS = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
"""The codecs of `compression.type`. "producer" is missing, since it keeps the codec of the batch."""
CODEC_BY_NUMBER = tuple(Codec)
"""A look-up, which takes a tenth of the time of a call of the enum."""
PACKED_AT_ONCE_BYTES_MAX = 65536
"""The size in bytes above which a batch is recompressed off the event loop.

A batch is also recompressed there if it may decompress to more than twice this size.
"""
WALKED_AT_ONCE_BYTES_MAX = 1 << 20
"""The decompressed size up to which records are validated on the event loop. This takes one millisecond with zstd."""
WALKED_AT_ONCE_RECORDS_MAX = 10_000
"""The number of records and headers up to which they are validated on the event loop.

This takes 4 ms if their sizes differ.
"""
FRAMED_AT_ONCE_BLOCKS_MAX = 10_000
"""The number of compressed blocks up to which their framing is checked on the event loop. This takes 3 ms."""
GZIP_COST = 4
"""The time that gzip takes, as a multiple of the time of other codecs."""


class LongWork(Exception):
    """An error for a batch that may take too long for the event loop: its records, or its compression."""


def opens_records(config: LogConfig) -> bool:
    """Whether every record must be examined, since the batch header has neither the keys nor the oldest timestamp."""
    return config.validate_records or config.compacted or config.message_timestamp_before_max_ms != LONG_MAX


def packs(config: LogConfig) -> bool:
    """Whether batches of another codec are compressed again."""
    return config.compression_type in CODECS


def is_long_work(batch: Batch, config: LogConfig) -> bool:
    """Whether `rewritten` would block the event loop, for a batch within the limits of `LogAppender.configure`.

    It is false for an invalid batch, which is refused quickly.
    """
    target = CODECS.get(config.compression_type)
    packs = target is not None and batch.codec != target
    if packs and batch.size > PACKED_AT_ONCE_BYTES_MAX:
        return True
    if not batch.codec or not (packs or opens_records(config)):
        return False
    bytes_max = 2 * PACKED_AT_ONCE_BYTES_MAX if packs else WALKED_AT_ONCE_BYTES_MAX
    try:
        return _cost(batch.codec, batch.payload, bytes_max)[1] > bytes_max
    except DecodeError:
        return False


def _cost(codec: Codec, payload: memoryview, enough: int) -> tuple[int, int]:
    """Return the size to which `payload` may decompress, and how many bytes of other codecs take as long."""
    room = room_for(codec, payload, enough)
    return room, room * GZIP_COST if codec is Codec.GZIP and room <= enough else room


def framed_codecs(config: LogConfig) -> tuple[int, ...]:
    """Return the codecs whose framing must be checked.

    Where the records are decompressed, only lz4 could be read that Kafka's readers refuse.
    """
    return (Codec.LZ4,) if opens_records(config) else tuple(codec for codec in Codec if codec)


def require_readable(codec: int, data: Buffer, blocks_max: int) -> None:
    """Raise INVALID_RECORD if Kafka's consumers cannot read the compressed batch `data` because of its framing.

    Raise LongWork if it has more than `blocks_max` blocks.
    """
    try:
        check_framing(Codec(codec), memoryview(data)[HEADER_BYTES:], blocks_max)
    except TooManyBlocks:
        raise LongWork from None
    except DecodeError as error:
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from None


def rewritten_at_once(data: Buffer, config: LogConfig, now_ms: int) -> Batch:
    """Return the batch `data` as `rewritten` does. Raise LongWork if that may take too long for the event loop."""
    batch = Batch.read(data)
    if is_long_work(batch, config):
        raise LongWork
    return rewritten(batch, config, now_ms, at_once=True)


def rewritten(batch: Batch, config: LogConfig, now_ms: int, *, at_once: bool = False) -> Batch:
    """Return the batch as it will be stored, apart from its offsets. Raise ApiError if one of its records is refused.

    `at_once` is true if the caller is on the event loop. Raise LongWork if the batch is too large for the event loop.
    """
    bytes_max = config.decompressed_bytes_max
    if at_once:
        bytes_max = min(bytes_max, WALKED_AT_ONCE_BYTES_MAX)
    try:
        if opens_records(config):
            rules = RecordRules.of(config)
            batch = _validated(batch, rules, now_ms, bytes_max, WALKED_AT_ONCE_RECORDS_MAX if at_once else None)
        target = CODECS.get(config.compression_type)
        if target is not None and batch.codec is not target:
            batch = Batch.read(recompress(batch, target, _level(config, target), bytes_max))
    except DecodeError as error:
        raise refusal(error, bytes_max, config) from error
    if batch.size > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {batch.size} bytes after compression to "
            f"{config.compression_type}, max.message.bytes is {config.max_message_bytes}",
        )
    return Batch.read(stamped(batch, now_ms)) if config.log_append_time else batch


def _validated(batch: Batch, rules: RecordRules, now_ms: int, bytes_max: int, headers_max: int | None) -> Batch:
    """Validate all records. Return the batch with the largest timestamp of its records in the header, as Kafka does."""
    youngest = rules.youngest(content(batch, bytes_max), batch.count, batch.base_timestamp, now_ms, headers_max)
    return batch if rules.is_stamped else retimed(batch, youngest)


def retimed(batch: Batch, max_timestamp: int) -> Batch:
    """Return the batch with this largest timestamp."""
    if batch.max_timestamp == max_timestamp:
        return batch
    return Batch.read(sealed(replace(batch, max_timestamp=max_timestamp), batch.payload))


def opened_at_once(codec: int, data: Buffer, bytes_max: int) -> bytes:
    """Return the decompressed records of the batch `data`.

    Raise LongWork if that may take too long for the event loop, TooLarge if they have more than `bytes_max` bytes, and
    DecodeError if they are damaged.
    """
    known, payload = CODEC_BY_NUMBER[codec], memoryview(data)[HEADER_BYTES:]
    room, cost = _cost(known, payload, bytes_max)
    if cost > WALKED_AT_ONCE_BYTES_MAX:
        raise LongWork
    return bytes(decompress(known, payload, bytes_max, room))


def refusal(error: DecodeError, bytes_max: int, config: LogConfig) -> Exception:
    """Return what an append raises after `error` in the records of a batch that may have `bytes_max` bytes."""
    if isinstance(error, NoKeys):
        return KeysRequired(error.indexes, error.count)
    if isinstance(error, TooLong) or (isinstance(error, TooLarge) and bytes_max < config.decompressed_bytes_max):
        return LongWork()
    code = ErrorCode.MESSAGE_TOO_LARGE if isinstance(error, TooLarge) else ErrorCode.INVALID_RECORD
    return ApiError(code, str(error))


def _level(config: LogConfig, codec: Codec) -> int | None:
    return {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }.get(codec)
