"""A row of the table: a name, its figures with their units, and a function that measures one broker once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tools.bench import frames
from tools.bench.cluster import Cluster
from tools.bench.peers import Broker, Peer


@dataclass(frozen=True)
class Figure:
    """One number of a row. `more_is_better` determines the direction of its ratio."""

    title: str
    more_is_better: bool = False
    digits: int = 2


@dataclass(frozen=True)
class Stage:
    """The resources of a row: the broker to measure, already warm, and a directory for brokers that the row starts."""

    peer: Peer
    broker: Broker
    scratch: Path

    def directory(self) -> Path:
        """Return the path of a directory that does not exist yet."""
        return self.scratch / f"{self.peer.name}-{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True)
class ClusterStage(Stage):
    """The resources of a row about a cluster. `kills` is the number of leaders to kill for the row of fail-overs."""

    cluster: Cluster
    kills: int


@dataclass(frozen=True)
class Row:
    """A row of the table. A `noisy` row is measured in pairs. If it `warms_up`, a turn before them does not count.

    `measure` returns a value for each of `figures`, or None if the broker does not support the measurement.
    """

    name: str
    figures: Mapping[str, Figure]
    measure: Callable[[Stage], Mapping[str, float] | None]
    noisy: bool = True
    warms_up: bool = False


class Topic:
    """A fresh topic for one measurement whose partitions are all served. It is deleted afterwards."""

    def __init__(self, broker: Broker, partitions: int = 4) -> None:
        self.name = f"bench-{uuid.uuid4().hex[:12]}"
        self.partitions = partitions
        self.ports: list[int] = []
        """The port of the leader of each partition, once the topic is created."""
        self._broker = broker

    def __enter__(self) -> Self:
        with frames.Caller(self._broker.port) as caller:
            caller.call(frames.create_topics([self.name], self.partitions, self._broker.replicas))
        self.ports = self._broker.leader_ports(self.name, self.partitions)
        for index, port in enumerate(self.ports):
            with frames.Caller(port) as caller:
                while frames.list_offsets_error(caller.call(frames.list_offsets(self.name, index))):
                    time.sleep(0.001)
        return self

    def __exit__(self, *_: object) -> None:
        with frames.Caller(self._broker.port) as caller:
            caller.call(frames.delete_topics([self.name]))


class CpuClock:
    """The CPU seconds that a broker has used since this clock was created. A row reads them just after its load."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._begun = broker.cpu_seconds()

    def seconds(self) -> float:
        """Return the CPU seconds since the clock was created."""
        return self._broker.cpu_seconds() - self._begun
