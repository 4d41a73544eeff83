"""What a topic's configs change in a client's batch before it is stored, and the look at every record that some want.

Pure, so that a thread may run it: decompression and compression are the only long work that an append can mean.
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.storage.config import LONG_MAX, LogConfig
from pykbroker.world.disk import Buffer
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.records.batch import CODEC_MASK, Batch
from wire.records.builder import recompress, stamped
from wire.records.compression import Codec, TooLarge
from wire.records.record import validate_records

CODECS = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
"""`compression.type`; "producer" keeps what came."""
OFF_LOOP_BYTES = 65536
"""Batches above it are opened in a thread."""


def opens_records(config: LogConfig) -> bool:
    """Whether every record must be looked at: the batch header does not tell keys, nor the oldest timestamp."""
    return config.validate_records or config.compacted or config.message_timestamp_before_max_ms != LONG_MAX


def rewrites(config: LogConfig) -> bool:
    """Whether any batch of this topic may need `rewritten`."""
    return config.log_append_time or config.compression_type in CODECS or opens_records(config)


def is_long_work(data: Buffer, config: LogConfig) -> bool:
    """Whether `rewritten` would hold up the loop."""
    if len(data) <= OFF_LOOP_BYTES:
        return False
    target = CODECS.get(config.compression_type)
    return opens_records(config) or (target is not None and data[22] & CODEC_MASK != target)


def rewritten(batch: Batch, config: LogConfig, now_ms: int) -> Batch:
    """The batch as it is to be stored, its offsets aside. ApiError: a record in it is refused."""
    try:
        if opens_records(config):
            _look_at_records(batch, config, now_ms)
        target = CODECS.get(config.compression_type)
        if target is not None and batch.codec is not target:
            batch = Batch.read(recompress(batch, target, _level(config, target), config.decompressed_bytes_max))
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
