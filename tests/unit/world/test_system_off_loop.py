"""Tests of functions in threads: the result and the error reach the caller, and errors are freed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from pykbroker.world.system_off_loop import SystemOffLoop


class Buffer:
    """Memory that the frame of a failing function references."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def test_the_result_of_the_function_is_returned() -> None:
    assert await SystemOffLoop()(divmod, 7, 2) == (3, 1)


@pytest.mark.usefixtures("no_collector")
async def test_an_error_and_the_buffers_of_its_frames_are_freed_once_it_is_handled() -> None:
    held: list[weakref.ref[Buffer]] = []

    def fail() -> None:
        buffer = Buffer()
        held.append(weakref.ref(buffer))
        try:
            raise KeyError("cause")
        except KeyError as cause:
            raise ValueError("refused") from cause

    try:
        await SystemOffLoop()(fail)
    except ValueError as error:
        assert isinstance(error.__cause__, KeyError)
        assert held[0]() is not None
    assert held[0]() is None
