"""The rules for a producer's batch, and the error of each rule.

The appender tests all rules at once. The functions here then find the first rule, in Kafka's order, that a refused
batch breaks.
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.storage.log.rewrite import opens_records
from pykbroker.storage.segments.config import LogConfig
from pykbroker.world.disk import Buffer
from wire.error_codes import ErrorCode
from wire.records.batch import CODEC_MASK, HEADER_BYTES, LENGTH_OVERHEAD, MAGIC, Batch
from wire.records.compression import Codec

REFUSED_ATTRIBUTES = 0x2F
"""The attribute bits for codec, LogAppendTime and control.

If one of these bits is not allowed, their value as a number is above the last codec.
"""
SIZE_TO_MAGIC = 17
"""The size of a batch up to the end of its magic byte, which has this place in every version of the format."""
RECORD_BYTES_MIN = 7
"""The size of a record without key, value and headers."""
COMPRESSED_RECORDS_MAX = (64 << 20) // RECORD_BYTES_MIN
"""The largest number of records that a compressed batch may claim: as many as fit into the largest decompressed size.
"""


def single_batch(data: Buffer) -> Buffer:
    """Return the one batch in `data`, without a following partial batch.

    Raise ApiError if there is not exactly one batch.
    """
    size = _size_at(data, 0)
    if size is None or size > len(data):
        raise ApiError(ErrorCode.INVALID_RECORD, "the request holds no whole record batch for this partition")
    following = _size_at(data, size)
    if following is not None and size + following <= len(data):
        raise ApiError(ErrorCode.INVALID_RECORD, "the request holds more than one record batch for this partition")
    return data[:size]


def _size_at(data: Buffer, at: int) -> int | None:
    """Return the size that the batch at `at` claims, or None if its length field is cut off."""
    if at + SIZE_TO_MAGIC > len(data):
        return None
    length, magic = int.from_bytes(data[at + 8 : at + 12], "big", signed=True), data[at + 16]
    if length < HEADER_BYTES - LENGTH_OVERHEAD and magic >= MAGIC:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"batch length {length} is too small for a header")
    if magic > MAGIC:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"batch of unknown magic {magic}")
    if magic < MAGIC:
        raise ApiError(ErrorCode.INVALID_RECORD, f"batch of magic {magic}: only version 2 is accepted")
    return LENGTH_OVERHEAD + length


def check_header(data: Buffer, config: LogConfig, now_ms: int) -> None:
    """Raise the ApiError of `data`, which should be one whole batch, unless its header lets it be appended."""
    batch = Batch.read(single_batch(data))
    _check_size(batch, config)
    _check_fields(batch)
    _check_time(batch, config, now_ms)


def _check_size(batch: Batch, config: LogConfig) -> None:
    if batch.base_offset:
        raise ApiError(ErrorCode.INVALID_RECORD, f"the base offset of a batch must be 0, not {batch.base_offset}")
    if batch.size > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {batch.size} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if not batch.crc_ok():
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the batch's checksum is not {batch.crc:08x}")
    if batch.size > config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {batch.size} bytes, segment.bytes is {config.segment_bytes}"
        )


def _check_fields(batch: Batch) -> None:
    fault = None
    if batch.count <= 0:
        fault = f"a batch of {batch.count} records"
    elif batch.last_offset_delta != batch.count - 1:
        fault = f"{batch.count} records with offsets from 0 to {batch.last_offset_delta}"
    elif batch.count > COMPRESSED_RECORDS_MAX or (
        batch.count * RECORD_BYTES_MIN > batch.size and not batch.attributes & CODEC_MASK
    ):
        fault = f"{batch.count} records in a batch of {batch.size} bytes"
    elif batch.is_control:
        fault = "control records are the broker's to write"
    elif batch.producer_id >= 0 and batch.base_sequence < 0:
        fault = f"sequence {batch.base_sequence} of producer {batch.producer_id}"
    elif batch.attributes & CODEC_MASK > max(Codec):
        fault = f"unknown compression codec {batch.attributes & CODEC_MASK}"
    if fault:
        raise ApiError(ErrorCode.INVALID_RECORD, fault)


def _check_time(batch: Batch, config: LogConfig, now_ms: int) -> None:
    if batch.is_log_append_time:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, "a producer must not set the timestamp type LogAppendTime")
    if config.log_append_time or opens_records(config):
        return
    if batch.max_timestamp > now_ms + config.message_timestamp_after_max_ms:
        raise ApiError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {batch.max_timestamp} is more than "
            f"{config.message_timestamp_after_max_ms} ms ahead of the broker's time {now_ms}",
        )
