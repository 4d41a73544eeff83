"""What a topic's configs change in a client's batch before it is stored, and the look at every record that some want.

Pure, so that a thread may run it: decompression and compression are the only long work that an append can mean.
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError, KeysRequired
from pykbroker.storage.config import LONG_MAX, LogConfig
from pykbroker.world.disk import Buffer
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.records import frames
from wire.records.batch import CODEC_MASK, HEADER_BYTES, Batch
from wire.records.builder import recompress, stamped
from wire.records.compression import Codec, TooLarge
from wire.records.record import NoKeys, validate_records

CODECS = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
"""`compression.type`; "producer" keeps what came."""
OFF_LOOP_BYTES = 65536
"""Batches above it are opened in a thread, and so are others that may yield more than twice of it."""
OFF_LOOP_RECORDS = 1000
"""Looked at one by one, more than these are looked at in a thread."""
GZIP_RATIO_MAX = 1032
COUNT = slice(HEADER_BYTES - 4, HEADER_BYTES)


def opens_records(config: LogConfig) -> bool:
    """Whether every record must be looked at: the batch header does not tell keys, nor the oldest timestamp."""
    return config.validate_records or config.compacted or config.message_timestamp_before_max_ms != LONG_MAX


def rewrites(config: LogConfig) -> bool:
    """Whether any batch of this topic may need `rewritten`."""
    return config.log_append_time or config.compression_type in CODECS or opens_records(config)


def is_long_work(data: Buffer, config: LogConfig) -> bool:
    """Whether `rewritten` would hold up the loop. What does not parse is refused soon enough."""
    target, looks = CODECS.get(config.compression_type), opens_records(config)
    if len(data) < HEADER_BYTES or not (looks or (target is not None and data[22] & CODEC_MASK != target)):
        return False
    if len(data) > OFF_LOOP_BYTES or (looks and int.from_bytes(data[COUNT], "big") > OFF_LOOP_RECORDS):
        return True
    try:
        batch = Batch.read(data)
        return _room(batch.codec, batch.payload) > 2 * OFF_LOOP_BYTES
    except DecodeError:
        return False


def _room(codec: Codec, payload: memoryview) -> int:
    """How many bytes this may decompress to, whatever it claims; counted no further than needed."""
    match codec:
        case Codec.NONE:
            return len(payload)
        case Codec.GZIP:
            return len(payload) * GZIP_RATIO_MAX
        case Codec.SNAPPY:
            from wire.records import xerial  # which loads cramjam

            return xerial.claimed_bytes(payload)
        case Codec.LZ4:
            return frames.lz4_room(payload, 2 * OFF_LOOP_BYTES)
        case Codec.ZSTD:
            return frames.zstd_room(payload, 2 * OFF_LOOP_BYTES)


def rewritten(batch: Batch, config: LogConfig, now_ms: int) -> Batch:
    """The batch as it is to be stored, its offsets aside. ApiError: a record in it is refused."""
    try:
        if opens_records(config):
            _look_at_records(batch, config, now_ms)
        target = CODECS.get(config.compression_type)
        if target is not None and batch.codec is not target:
            batch = Batch.read(recompress(batch, target, _level(config, target), config.decompressed_bytes_max))
    except NoKeys as error:
        raise KeysRequired(error.indexes, error.count) from error
    except TooLarge as error:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except DecodeError as error:
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from error
    if batch.size > config.max_message_bytes:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {batch.size} bytes after compression to "
                       f"{config.compression_type}, max.message.bytes is {config.max_message_bytes}")
    return Batch.read(stamped(batch, now_ms)) if config.log_append_time else batch


def _look_at_records(batch: Batch, config: LogConfig, now_ms: int) -> None:
    oldest, youngest = validate_records(batch, config.decompressed_bytes_max, key_required=config.compacted)
    if config.log_append_time:
        return
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if (oldest != -1 and now_ms - oldest > before) or youngest - now_ms > after:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, f"timestamps from {oldest} to {youngest}: more than {before} ms "
                       f"behind or {after} ms ahead of the broker's time {now_ms}")


def _level(config: LogConfig, codec: Codec) -> int | None:
    return {Codec.GZIP: config.compression_gzip_level, Codec.LZ4: config.compression_lz4_level,
            Codec.ZSTD: config.compression_zstd_level}.get(codec)
