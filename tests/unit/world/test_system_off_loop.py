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
async def test_the_buffers_of_a_function_that_fails_are_freed_at_once() -> None:
    held: list[weakref.ref[Buffer]] = []

    def fail() -> None:
        buffer = Buffer()
        held.append(weakref.ref(buffer))
        try:
            raise KeyError("cause")
        except KeyError as cause:
            error = ValueError("refused")  # the function's own frame refers to the error that it raises
            raise error from cause

    with pytest.raises(ValueError, match="refused") as raised:
        await SystemOffLoop()(fail)
    assert isinstance(raised.value.__cause__, KeyError)
    assert held[0]() is None
