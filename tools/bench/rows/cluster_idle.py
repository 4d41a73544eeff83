"""Three nodes without clients: their memory and CPU, and the time of their start until all ISRs are full.

pykbroker's nodes are run by `pykbroker cluster`, whose own process counts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from tools.bench.child import cpu_seconds, proportional_bytes
from tools.bench.cluster import Cluster, Supervised
from tools.bench.row import Figure, Row, Stage, Topic

SETTLE_S, WATCH_S = 10, 20
PARTITIONS = 12


def idle(stage: Stage) -> Mapping[str, float]:
    """Measure a cluster that has just started, with one topic of `PARTITIONS`."""
    cluster = _started(stage)
    try:
        Topic(cluster, PARTITIONS).__enter__()
        time.sleep(SETTLE_S)
        pids = cluster.pids()
        begun = sum(map(cpu_seconds, pids))
        time.sleep(WATCH_S)
        cpu = sum(map(cpu_seconds, pids)) - begun
        return {"memory": sum(map(proportional_bytes, pids)) / 1e6, "cpu": cpu / WATCH_S * 100}
    finally:
        cluster.stop()


def start(stage: Stage) -> Mapping[str, float]:
    """Measure a start after a clean stop, until all nodes report `PARTITIONS` full ISRs."""
    cluster = _started(stage)
    topic = Topic(cluster, PARTITIONS)
    topic.__enter__()
    cluster.stop()
    begun = time.monotonic()
    cluster.launch()
    try:
        cluster.wait_full(topic.name, PARTITIONS)
        return {"seconds": time.monotonic() - begun}
    finally:
        cluster.stop()


def _started(stage: Stage) -> Cluster:
    made = Supervised if stage.peer.in_process else Cluster
    return made(stage.peer, stage.directory())


ROWS = (
    Row("cluster: three idle nodes", {"memory": Figure("MB (PSS)", digits=0), "cpu": Figure("CPU %", digits=1)}, idle),
    Row("cluster: start until ISRs are full", {"seconds": Figure("s")}, start),
)
