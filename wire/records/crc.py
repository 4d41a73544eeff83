"""CRC-32C (Castagnoli): the checksum of record batches, checkpoints of producers and scrubbed segments."""

from fastcrc.crc32 import iscsi

from wire.declare import Buffer


def crc32c(buffer: Buffer, start: int = 0, *, initial: int = 0) -> int:
    """Checksum of the bytes from `start` to the end, without a copy; `initial` is that of the bytes before them."""
    return iscsi(memoryview(buffer)[start:] if start else buffer, initial)
