"""Load on three nodes with three replicas and acks=all, and one-record requests to three brokers without replicas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tools.bench.cluster import Cluster, OurKind
from tools.bench.row import Figure, Row, Stage
from tools.bench.rows import end_to_end, requests, volume

MESSAGES = 1_000_000
CONNECTIONS = 100


def alone(stage: Stage) -> Mapping[str, float] | None:
    """Compare three brokers of pykbroker without replicas, as `pykbroker cluster --replicas 1` runs them, with one."""
    if not stage.peer.in_process:
        return None
    broker = stage.peer.start(stage.directory())
    try:
        one = requests.produce(Stage(stage.peer, broker, stage.scratch), CONNECTIONS, 1)
    finally:
        broker.stop()
    cluster = Cluster(stage.peer, stage.directory(), OurKind(replicas=1), replicas=1)
    try:
        three = requests.produce(Stage(stage.peer, cluster, stage.scratch), CONNECTIONS, 1)
    finally:
        cluster.stop()
    return {
        "three": three["rate"],
        "one": one["rate"],
        "ratio": three["rate"] / one["rate"],
        "three99": three["p99"],
        "one99": one["p99"],
    }


ALONE = {
    "three": Figure("three brokers, req/s", True, 0),
    "one": Figure("one broker, req/s", True, 0),
    "ratio": Figure("three over one", True),
    "three99": Figure("three brokers, p99 ms"),
    "one99": Figure("one broker, p99 ms"),
}

ROWS = (
    Row("cluster: produce 100 B", volume.SMALL, partial(volume.produce, count=MESSAGES, value_bytes=100)),
    Row(
        "cluster: one-record Produce, 10 connections",
        requests.FIGURES,
        partial(requests.produce, connections=10, in_flight=1),
    ),
    Row("cluster: end to end at 1,000 msg/s", end_to_end.FIGURES, end_to_end.end_to_end),
    Row("cluster of factor 1: one-record Produce, 100 connections", ALONE, alone),
)
