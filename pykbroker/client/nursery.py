"""The end of the nursery that an `async with` block of a client has opened for the client's tasks."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import trio

from pykbroker.client.defect import ClientInterrupted
from pykbroker.world.background import cause_of


@trio.lowlevel.enable_ki_protection
async def leave_nursery(manager: AbstractAsyncContextManager[trio.Nursery], error: BaseException | None) -> None:
    """Wait for the tasks of a client whose block has ended with `error`, which the nursery would wrap in a group.

    An error that a signal handler has raised ends the block and may end the client: the block's is the one to raise.
    Ctrl-C and SystemExit that arrive here are raised without a group, too, so that `except KeyboardInterrupt` takes the
    one, and the other ends the program with its status.
    """
    try:
        await manager.__aexit__(None, None, None)
    except BaseExceptionGroup as group:
        _, others = group.split(ClientInterrupted)
        if others is not None and others.split((KeyboardInterrupt, SystemExit))[1] is None:
            raise cause_of(others) or group from None
        if error is None or others is not None:
            raise
