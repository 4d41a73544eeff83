"""Produce requests of one record with acks=all, each fsynced before it is acknowledged."""

from __future__ import annotations

from collections.abc import Mapping

from tools.bench.row import Row, Stage
from tools.bench.rows import requests

CONNECTIONS = 50


def produce(stage: Stage) -> Mapping[str, float] | None:
    """Measure a new broker: pykbroker with `pykbroker.flush.before.ack`, Kafka with `flush.messages=1`."""
    if not stage.peer.flushing:
        return None
    broker = stage.peer.start(stage.directory(), options=stage.peer.flushing)
    try:
        own = Stage(stage.peer, broker, stage.scratch)
        requests.produce(own, CONNECTIONS, 1)  # This warms up the broker.
        return requests.produce(own, CONNECTIONS, 1)
    finally:
        broker.stop()


ROWS = (Row(f"one-record Produce with fsync, {CONNECTIONS} connections", requests.FIGURES, produce),)
