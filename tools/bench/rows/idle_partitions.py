"""Three nodes with 2,000 partitions of three replicas: their CPU without clients, and what a node that returns delays.

The longest step of pykbroker's nodes is CPU time of one event loop, measured by `tools.bench.partition_steps`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tools.bench import cluster_requests
from tools.bench.cluster import FULL_S_MAX, NODES, Cluster
from tools.bench.row import Figure, Row, Stage, Topic
from tools.bench.rows.many_partitions import run
from tools.bench.rows.steps import other_client

TOPICS, PARTITIONS = 4, 500
LOST = 3
SETTLE_S, WATCH_S = 12, 30
LOOK_S = 0.1


def measure(stage: Stage) -> Mapping[str, float]:
    """Return the CPU of a node without clients in %, and figures of the return of a node that was killed.

    The figures are the time in s until all ISRs are full again, the longest wait in ms of another node's client
    meanwhile, and, of pykbroker's nodes, the longest step and garbage collection in ms.
    """
    found = {}
    with followed_partitions(stage) as (cluster, topics):
        time.sleep(SETTLE_S)
        begun = cluster.cpu_seconds()
        time.sleep(WATCH_S)
        found["cpu"] = (cluster.cpu_seconds() - begun) / len(NODES) / WATCH_S * 100
        cluster.kill(LOST)
        wait_without(cluster, LOST, topics)
        with other_client(cluster.port_of(1)) as waits_ms:
            begun = time.monotonic()
            cluster.start(LOST)
            for topic in topics:
                cluster.wait_full(topic, PARTITIONS)
            found["seconds"] = time.monotonic() - begun
        found["wait"] = max(waits_ms)
    if stage.peer.in_process:
        nodes = run("partition_steps", TOPICS * PARTITIONS)["return"]
        del nodes["seconds"]
        found |= {key: max(node[key] for node in nodes.values()) for key in ("step", "collection")}
    return found


@contextmanager
def followed_partitions(stage: Stage) -> Iterator[tuple[Cluster, Sequence[str]]]:
    """Yield a new cluster and its topics, whose ISRs are full."""
    cluster = Cluster(stage.peer, stage.directory())
    try:
        topics = [Topic(cluster, PARTITIONS) for _ in range(TOPICS)]
        for topic in topics:
            topic.__enter__()
        yield cluster, [topic.name for topic in topics]
    finally:
        cluster.kill_all()


def wait_without(cluster: Cluster, lost: int, topics: Sequence[str]) -> None:
    """Wait until no partition has this node as leader or in its ISR; raise RuntimeError after `FULL_S_MAX`."""
    deadline = time.monotonic() + FULL_S_MAX
    for topic in topics:
        while (view := cluster_requests.describe(cluster.port_of(1), topic)) is None or any(
            lost in isr for isr in view.isrs
        ):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic} still has node {lost} in an ISR after {FULL_S_MAX} s: {view}")
            time.sleep(LOOK_S)


FIGURES = {
    "cpu": Figure("CPU % of an idle node", digits=1),
    "seconds": Figure("s until a returning node is in all ISRs", digits=1),
    "wait": Figure("longest wait of another client meanwhile, ms", digits=0),
    "step": Figure("longest step meanwhile, ms", digits=1),
    "collection": Figure("longest garbage collection meanwhile, ms", digits=1),
}
ROWS = (Row("cluster: 2,000 partitions of three replicas", FIGURES, measure),)
