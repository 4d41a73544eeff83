"""The hosts that configs name, by their addresses: asked for once, when the configs are read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

import trio

from pykbroker.core.config.host_counts import is_name

logger = logging.getLogger(__name__)

LOOK_UP_S_MAX = 3
"""For all names that are new together."""


class HostResolver(Protocol):
    """Who knows the addresses of hosts; `world.net.Net` does."""

    async def addresses(self, host: str, /) -> tuple[str, ...]:
        """All addresses of a host; OSError where it has none, or nobody can say."""


class HostNames:
    """Each host is asked for once, as long as it is named: who asks has more to do than to wait for a resolver."""

    def __init__(self, directory: HostResolver) -> None:
        self._directory = directory
        self._found: dict[str, tuple[str, ...]] = {}

    async def addresses(self, hosts: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Of those hosts that are no addresses themselves; none of one that cannot be found in time, and a line."""
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
                logger.error("the host %s has no address (%s): what configs say of it has no effect", host, reason)
        self._found = found
        return found


def by_address(counts: Mapping[str, int], named: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Each number under every address of its host."""
    return {address: count for host, count in counts.items() for address in named.get(host, (host,))}
