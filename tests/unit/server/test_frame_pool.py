"""Buffers are reused only when no view on them exists."""

from __future__ import annotations

from pykbroker.server.frame_pool import POOLED_BYTES_MAX, SIZE_MIN, FramePool


def test_a_buffer_given_back_is_used_again() -> None:
    pool = FramePool()
    buffer = pool.take(100_000)
    assert len(buffer) == 131_072
    pool.give(buffer)
    assert pool.take(131_072) is buffer
    assert pool.take(131_072) is not buffer


def test_a_buffer_with_a_view_on_it_is_not_used_again() -> None:
    pool = FramePool()
    buffer = pool.take(SIZE_MIN)
    view = memoryview(buffer)[10:20]
    pool.give(buffer)
    assert pool.take(SIZE_MIN) is not buffer
    assert len(view) == 10


def test_the_pool_is_bounded() -> None:
    pool = FramePool()
    buffers = [pool.take(1 << 20) for _ in range(POOLED_BYTES_MAX // (1 << 20) + 3)]
    for buffer in buffers:
        pool.give(buffer)
    again = [pool.take(1 << 20) for _ in buffers]
    assert sum(any(taken is buffer for buffer in buffers) for taken in again) == POOLED_BYTES_MAX // (1 << 20)
