"""The codecs of record batches."""

from enum import IntEnum


class Codec(IntEnum):
    """How the records of a batch are compressed: bits 0-2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
