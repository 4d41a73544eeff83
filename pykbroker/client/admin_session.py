"""An admin client for a program without a network of its own: the command line and the test fixture."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from pykbroker.client.admin import Admin
from pykbroker.client.connection import connected
from pykbroker.world.system_net import SystemNet


async def with_admin(host: str, port: int, client_id: str, work: Callable[[Admin], Awaitable[None]]) -> None:
    """Connect to a broker, run `work` with an admin client, and disconnect. Errors of `work` come out as they are."""
    net = SystemNet()
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(net.run)
        try:
            async with connected(net, host, port, client_id) as connection:
                await work(Admin(connection))
        except Exception as error:  # noqa: BLE001 - raised below, since the nursery would wrap it in a group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
