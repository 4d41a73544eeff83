"""CRC-32C (Castagnoli): the checksum of record batches, producer snapshots and scrubbed segments."""

from fastcrc.crc32 import iscsi

from wire.declare import Buffer

COPY_BYTES_MAX = 8192  # below this size, a copy of a slice takes less time than a memoryview


def crc32c(buffer: Buffer, start: int = 0, *, initial: int = 0) -> int:
    """Return the checksum of the bytes from `start` to the end. `initial` is the checksum of preceding bytes."""
    return iscsi(buffer[start:] if len(buffer) <= COPY_BYTES_MAX else memoryview(buffer)[start:], initial)
