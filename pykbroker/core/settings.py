"""The settings that a broker is started with, and the facts that it reports when it is ready."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pykbroker.core.config.config import BrokerConfig


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one broker. Ports are TCP ports; `listen_port` 0 selects any free one."""

    config: BrokerConfig
    data_dirs: tuple[str, ...]
    listen_host: str = "127.0.0.1"
    listen_port: int = 9092
    advertise_host: str | None = None
    """The advertised host, or None for the address at which each client reached this broker."""
    advertise_port: int | None = None
    memory: bool = False
    """Whether data is temporary: log directories are deleted at the end and never flushed to the device."""
    topics: tuple[tuple[str, int], ...] = ()
    """(name, partitions) of topics that are created before the first client is served."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The facts of a broker that has started to serve, passed once to the callback of `broker.serve`."""

    host: str
    port: int
    cluster_id: str
    node_id: int
    statistics: Callable[[], Any]
    """Returns a frozen snapshot of the broker's current counters: `pykbroker.broker.BrokerStatistics`."""


Ready = Callable[[Serving], None]
