"""Reads of a file in chunks. A thread is used only for bytes that the page cache lacks."""

from __future__ import annotations

import trio

from pykbroker.world.disk import Buffer, File, NotCached

CHUNK_BYTES = 256 << 10


async def read_file(file: File, offset: int, size: int) -> Buffer:
    """Read `size` bytes from `offset`. Every call is a trio checkpoint."""
    try:
        data = file.read_nowait(offset, size)
    except NotCached:
        return await file.read(offset, size)
    await trio.lowlevel.checkpoint()
    return data
