"""The time to fill a replica whose log directory has lost `FILLED_BYTES` of one topic."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping

from tools.bench import volume
from tools.bench.cluster import NODES
from tools.bench.row import ClusterStage, Figure, Row, Stage, Topic

FILLED_BYTES = 1 << 30
VALUE_BYTES = 1024
PARTITIONS = 4


def refill(stage: Stage) -> Mapping[str, float]:
    """Stop a node, remove its replicas of a topic of 1 GiB, start the node, and wait until all ISRs are full.

    The checkpoints of offsets are removed with the replicas, since they name what the node has lost. The time counts
    from the first response of the node that names a broker.
    """
    assert isinstance(stage, ClusterStage)
    cluster = stage.cluster
    node_id = next(one for one in NODES if one != cluster.controller())
    with Topic(cluster, PARTITIONS) as topic:
        volume.produce(cluster, topic, FILLED_BYTES // VALUE_BYTES, bytes(VALUE_BYTES))
        cluster.wait_full(topic.name, PARTITIONS)
        cluster.nodes[node_id].stop()
        log_dir = cluster.kind.log_dir(cluster.directory, node_id)
        removed = list(log_dir.glob(f"{topic.name}-*"))
        if len(removed) != PARTITIONS:
            raise RuntimeError(f"node {node_id} has {removed} of {topic.name}, not {PARTITIONS} partitions")
        for path in removed:
            shutil.rmtree(path)
        for path in log_dir.glob("*-offset-checkpoint"):
            path.unlink()
        started = time.monotonic()
        cluster.start(node_id)
        cluster.wait_answering(node_id)
        begun, cpu = time.monotonic(), cluster.cpu_seconds()
        cluster.wait_full(topic.name, PARTITIONS)
        ended = time.monotonic()
        return {
            "rate": FILLED_BYTES / (ended - begun) / 1e6,
            "seconds": ended - started,
            "cpu": cluster.cpu_seconds() - cpu,
        }


FIGURES = {
    "rate": Figure("MB/s once the node serves", True, 0),
    "seconds": Figure("s from the start of the process", digits=1),
    "cpu": Figure("CPU s of three nodes", digits=1),
}

ROWS = (Row("cluster: emptied replica filled, 1 GiB", FIGURES, refill),)
