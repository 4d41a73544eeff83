"""Counters of the bytes written to and read from the logs of a directory."""

from __future__ import annotations


class Traffic:
    """The counters since the start, over all logs including deleted ones. Only bytes of record batches count."""

    __slots__ = ("bytes_in", "bytes_out", "flushes")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.flushes = 0
