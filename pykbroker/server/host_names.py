"""The addresses of the host names in configs. Names are resolved when the configs are read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

import trio

from pykbroker.core.config.host_counts import is_name

logger = logging.getLogger(__name__)

LOOK_UP_S_MAX = 3
"""The total time in which all new names must be resolved."""


class HostResolver(Protocol):
    """A resolver of host names, such as `world.net.Net`."""

    async def addresses(self, host: str, /) -> tuple[str, ...]:
        """Return all addresses of a host. Raise OSError if the host has none, or if the resolver does not respond."""


class HostNames:
    """A cache of addresses. A host name is resolved once and kept for as long as configs name it."""

    def __init__(self, directory: HostResolver) -> None:
        self._directory = directory
        self._found: dict[str, tuple[str, ...]] = {}

    async def addresses(self, hosts: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the addresses of all `hosts` that are names.

        A host that is not resolved in time has none, and is logged.
        """
        found = {host: self._found.get(host, ()) for host in filter(is_name, hosts)}
        why = {host: "nobody answers" for host in found if host not in self._found}
        with trio.move_on_after(LOOK_UP_S_MAX):
            for host in why:
                try:
                    found[host] = await self._directory.addresses(host)
                except OSError as error:
                    why[host] = str(error)
        for host, reason in why.items():
            if not found[host]:
                logger.error("the host %s has no address (%s): configs that name it have no effect", host, reason)
        self._found = found
        return found


def by_address(counts: Mapping[str, int], named: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return `counts` with each host name replaced by the addresses of the host."""
    return {address: count for host, count in counts.items() for address in named.get(host, (host,))}
