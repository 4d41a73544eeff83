"""CRC-32C (Castagnoli): the checksum of record batches, checkpoints of producers and scrubbed segments."""

from fastcrc.crc32 import iscsi

Buffer = bytes | bytearray | memoryview


def crc32c(buffer: Buffer, start: int = 0) -> int:
    """Checksum of the bytes from `start` to the end, without a copy."""
    return iscsi(memoryview(buffer)[start:] if start else buffer)
