"""Tests of the pool of frame buffers: a buffer is reused only if no memoryview on it exists."""

from __future__ import annotations

from pykbroker.server.frame_pool import POOLED_BYTES_MAX, SIZE_MIN, FramePool


def test_a_returned_buffer_is_reused() -> None:
    pool = FramePool()
    buffer = pool.take(100_000)
    assert len(buffer) == 131_072
    pool.give(buffer)
    assert pool.take(131_072) is buffer
    assert pool.take(131_072) is not buffer


def test_a_buffer_with_a_memoryview_on_it_is_not_reused() -> None:
    pool = FramePool()
    buffer = pool.take(SIZE_MIN)
    view = memoryview(buffer)[10:20]
    pool.give(buffer)
    assert pool.take(SIZE_MIN) is not buffer
    assert len(view) == 10


def test_the_size_of_the_pool_is_limited() -> None:
    pool = FramePool()
    buffers = [pool.take(1 << 20) for _ in range(POOLED_BYTES_MAX // (1 << 20) + 3)]
    for buffer in buffers:
        pool.give(buffer)
    again = [pool.take(1 << 20) for _ in buffers]
    assert sum(any(taken is buffer for buffer in buffers) for taken in again) == POOLED_BYTES_MAX // (1 << 20)
