"""Tests of the frame reader, which turns received bytes into frames."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.server.frame_pool import FramePool
from pykbroker.server.frames import FRAME_BYTES_MIN, FrameReader
from pykbroker.server.large_frame import LARGE_FRAME_BYTES
from wire.errors import DecodeError

BYTES_MAX = 100_000


def reader() -> FrameReader:
    return FrameReader(BYTES_MAX, FramePool())


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def cut(frames: FrameReader, data: bytes) -> list[bytes]:
    """Yield or return every complete frame, and keep the incomplete rest."""
    data, pos, found = frames.take(data), 0, []
    while end := frames.end_of(data, pos):
        found.append(data[pos + 4 : end])
        pos = end
    frames.rest = data[pos:]
    return found


@given(
    bodies=st.lists(st.binary(min_size=FRAME_BYTES_MIN, max_size=40), max_size=5),
    sizes=st.lists(st.integers(1, 30), min_size=1),
)
def test_frames_do_not_depend_on_how_their_bytes_are_split(bodies: list[bytes], sizes: list[int]) -> None:
    frames, data, found = reader(), b"".join(map(framed, bodies)), list[bytes]()
    for at in range(len(data)):
        size = sizes[at % len(sizes)]
        found += cut(frames, data[:size])
        data = data[size:]
    assert (found, frames.kept_bytes) == (bodies, 0)


@pytest.mark.parametrize("size", [-1, 0, FRAME_BYTES_MIN - 1, BYTES_MAX + 1])
def test_an_invalid_frame_size_is_an_error_before_the_frame_is_complete(size: int) -> None:
    with pytest.raises(DecodeError, match=f"a request of {size} bytes, allowed are 10 to 100000"):
        reader().end_of(struct.pack(">i", size), 0)


def test_an_incomplete_frame_gets_its_own_buffer_only_above_a_minimum_size() -> None:
    frames, data = reader(), framed(bytes(BYTES_MAX))
    frames.rest = data[:LARGE_FRAME_BYTES]
    assert not frames.wants_buffer
    frames.rest = data[: LARGE_FRAME_BYTES + 1]
    assert frames.wants_buffer
    frames.rest = framed(bytes(20)) * 2000
    assert not frames.wants_buffer, "complete frames need no buffer of their own"


def test_a_large_frame_is_received_into_its_own_buffer() -> None:
    frames, body = reader(), bytes(range(250)) * 400
    start = LARGE_FRAME_BYTES + 1
    frames.rest = framed(body)[: start + 4]
    frames.begin_large(trust=16)
    assert (frames.rest, frames.incomplete_bytes) == (b"", start)
    while frames.room is not None:
        size = min(10_000, len(frames.room))
        at = frames.incomplete_bytes
        frames.room[:size] = body[at : at + size]
        large = frames.filled(size)
        if not large.is_complete:
            frames.open_room()
    assert (bytes(large.buffer[: large.size]), frames.incomplete_bytes) == (body, BYTES_MAX)


def test_a_cleared_reader_keeps_no_bytes() -> None:
    frames = reader()
    frames.rest = framed(bytes(BYTES_MAX))[: LARGE_FRAME_BYTES + 1]
    frames.begin_large(trust=2)
    room = frames.room
    frames.clear()
    assert (frames.kept_bytes, frames.incomplete_bytes, frames.room) == (0, 0, None)
    with pytest.raises(ValueError, match="released"):
        len(room)  # type: ignore[arg-type]
