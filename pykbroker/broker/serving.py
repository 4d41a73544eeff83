"""The function that runs one broker from start to stop."""

from __future__ import annotations

import logging

import trio

from pykbroker.broker.address import bind
from pykbroker.broker.lifecycle import Broker
from pykbroker.broker.parts import open_parts
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.errors import StartError
from pykbroker.core.name_pattern import has_engine
from pykbroker.core.settings import Ready, Serving, Settings
from pykbroker.server.host_names import HostNames
from pykbroker.server.limits import overrides
from pykbroker.world.system import system_world
from pykbroker.world.world import World

logger = logging.getLogger(__name__)


async def serve(
    settings: Settings, ready: Ready, *, world: World | None = None, stop: trio.Event | None = None
) -> None:
    """Run a broker until `stop` is set. Call `ready` once clients are served, unless `stop` was set before.

    `world` is the real machine by default. Raise StartError if the broker cannot start.
    """
    world = world or system_world(settings.data_dirs, durable=not settings.memory)
    if not has_engine():
        logger.warning(
            "google-re2 is not installed: consumers that subscribe to a regular expression in the protocol of KIP-848,"
            " and ListTransactions with one, are refused with INVALID_REGULAR_EXPRESSION"
        )
    stop = trio.Event() if stop is None else stop
    if settings.has_other_nodes:
        await serve_in_cluster(settings, ready, world, stop)
    else:
        await serve_alone(settings, ready, world, stop)


async def serve_alone(settings: Settings, ready: Ready, world: World, stop: trio.Event) -> None:
    """Run a broker. If it connects to other nodes, `world.net` must run meanwhile."""
    bound = bind(world, settings)
    hosts = HostNames(world.net)
    try:
        await check_hosts(hosts, settings.config)
        parts = await open_parts(settings, world, bound, hosts)
    except BaseException:
        bound.close()
        raise
    await Broker(parts).run(ready, stop)


async def serve_in_cluster(settings: Settings, ready: Ready, world: World, stop: trio.Event) -> None:
    """Run a broker that connects to other nodes, or that other nodes connect to, from its start to its end."""
    failure: Exception | None = None
    started = trio.Event()

    def note(serving: Serving) -> None:
        started.set()
        ready(serving)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.net.run)
        if settings.quorum:
            nursery.start_soon(end_start, stop, started, nursery.cancel_scope)
        try:
            await serve_alone(settings, note, world, stop)
        except Exception as error:  # noqa: BLE001 - it is raised below, outside of the nursery's exception group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def end_start(stop: trio.Event, started: trio.Event, scope: trio.CancelScope) -> None:
    """End a start that waits for a controller in another process as soon as `stop` is set."""
    await stop.wait()
    if not started.is_set():
        scope.cancel()


async def check_hosts(hosts: HostNames, config: BrokerConfig) -> None:
    """Raise StartError if a host in a config cannot be resolved to an address."""
    for host, addresses in (await hosts.addresses(overrides(config))).items():
        if not addresses:
            raise StartError(
                f"max.connections.per.ip.overrides: {host} has no address in DNS. Correct the name,"
                " or give its address."
            )
