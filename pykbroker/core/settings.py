"""What a broker is started with, and what it says once it serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pykbroker.core.config.config import BrokerConfig


@dataclass(frozen=True, slots=True)
class Settings:
    """One broker to start. Ports are TCP ports; `listen_port` 0 takes any free one."""

    config: BrokerConfig
    data_dirs: tuple[str, ...]
    listen_host: str = "127.0.0.1"
    listen_port: int = 9092
    advertise_host: str | None = None
    """None: the address at which each client reached this broker."""
    advertise_port: int | None = None
    memory: bool = False
    """Nothing is kept: the directories are temporary and are never flushed to the device."""
    topics: tuple[tuple[str, int], ...] = ()
    """(name, partitions) of topics that shall exist before the first client is served."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A broker that serves: told once, by the callback given to `broker.serve`."""

    host: str
    port: int
    cluster_id: str
    node_id: int
    statistics: Callable[[], Any]
    """A frozen snapshot of what was counted, made now: `pykbroker.broker.BrokerStatistics`."""


Ready = Callable[[Serving], None]
