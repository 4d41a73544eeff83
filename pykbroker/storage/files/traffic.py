"""What goes into and out of the logs of a directory."""

from __future__ import annotations


class Traffic:
    """Counts since the start, of all logs, also those that are gone. Bytes are those of record batches."""

    __slots__ = ("bytes_in", "bytes_out", "flushes")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.flushes = 0
