"""The end of the nursery that the block of a client has opened."""

from __future__ import annotations

import pytest
import trio

from pykbroker.client.defect import ClientInterrupted
from pykbroker.client.nursery import leave_nursery


async def fail(error: BaseException) -> None:
    raise error


async def leave(*errors: BaseException, of_block: BaseException | None = None) -> None:
    """Leave a nursery whose tasks raise these errors."""
    manager = trio.open_nursery()
    nursery = await manager.__aenter__()
    for each in errors:
        nursery.start_soon(fail, each)
    await leave_nursery(manager, of_block)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_an_interrupt_is_raised_without_a_group(error: BaseException) -> None:
    for errors in ([error], [error, ClientInterrupted("in the midst of a request")]):
        with pytest.raises(type(error)) as caught:
            await leave(*errors)
        assert caught.value is error


async def test_an_interrupt_is_raised_with_the_errors_of_other_tasks() -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        await leave(SystemExit(3), ValueError())
    assert caught.value.subgroup(ValueError) is not None


async def test_an_interrupted_client_lets_the_error_of_its_block_pass() -> None:
    error = ClientInterrupted("in the midst of a request")
    await leave(error, of_block=SystemExit(3))
    with pytest.raises(BaseExceptionGroup):
        await leave(error)
