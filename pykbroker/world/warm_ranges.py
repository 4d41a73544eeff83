"""The bytes of a file that are probably in the page cache, for systems on which no read refuses to wait for the disk.

These systems do not say what their page cache has. Bytes that this process has appended or read a short time ago are
read on the event loop, and all others in a thread.
"""

from __future__ import annotations

APPENDED_BYTES_MAX = 64 << 20
"""The number of bytes at the end of a file that are warm if this process has appended them."""
RANGES_MAX = 16
"""The number of ranges that a thread has read last. Each concurrent reader of a file needs one."""


class WarmRanges:
    """The warm parts of one file: what was appended last, and what a thread has read last."""

    __slots__ = ("_appended_from", "_read")

    def __init__(self, size: int) -> None:
        self._appended_from = size
        self._read: list[tuple[int, int]] = []

    def has(self, start: int, end: int, file_size: int) -> bool:
        """Whether the bytes from `start` to `end` of a file of this size are warm."""
        if start >= max(self._appended_from, file_size - APPENDED_BYTES_MAX):
            return True
        return any(first <= start and end <= last for first, last in self._read)

    def add(self, start: int, end: int) -> None:
        """Note that a thread has read the bytes from `start` to `end`."""
        self._read = [*self._read[1 - RANGES_MAX :], (start, end)]

    def cut(self, size: int) -> None:
        """Note that the file was truncated to `size`. What is appended from there on is warm."""
        self._appended_from = min(self._appended_from, size)
