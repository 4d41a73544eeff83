"""The time to fill a replica whose log directory has lost `FILLED_BYTES` of one topic."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from tools.bench import volume
from tools.bench.cluster import NODES
from tools.bench.row import ClusterStage, Figure, Row, Stage, Topic

FILLED_BYTES = 1 << 30
VALUE_BYTES = 1024
PARTITIONS = 4
FILLED_S_MAX, POLL_S = 300, 0.01


def refill(stage: Stage) -> Mapping[str, float]:
    """Stop a node, remove its replicas of a topic of 1 GiB, start the node, and wait until all ISRs are full.

    The checkpoints of offsets are removed with the replicas, since they name what the node has lost. The rate is that
    from the first byte in the new logs to the last: Kafka's node fetches long before it answers clients.
    """
    assert isinstance(stage, ClusterStage)
    cluster = stage.cluster
    node_id = next(one for one in NODES if one != cluster.controller())
    with Topic(cluster, PARTITIONS) as topic:
        volume.produce(cluster, topic, FILLED_BYTES // VALUE_BYTES, bytes(VALUE_BYTES))
        cluster.wait_full(topic.name, PARTITIONS)
        log_dir = cluster.kind.log_dir(cluster.directory, node_id)
        whole = stored_bytes(log_dir, topic.name)
        cluster.nodes[node_id].stop()
        removed = list(log_dir.glob(f"{topic.name}-*"))
        if len(removed) != PARTITIONS:
            raise RuntimeError(f"node {node_id} has {removed} of {topic.name}, not {PARTITIONS} partitions")
        for path in removed:
            shutil.rmtree(path)
        for path in log_dir.glob("*-offset-checkpoint"):
            path.unlink()
        started = time.monotonic()
        cluster.start(node_id)
        begun = wait_stored(log_dir, topic.name, 1)
        cpu = cluster.cpu_seconds()
        filled = wait_stored(log_dir, topic.name, whole)
        cpu = cluster.cpu_seconds() - cpu
        cluster.wait_full(topic.name, PARTITIONS)
        return {"rate": whole / (filled - begun) / 1e6, "seconds": time.monotonic() - started, "cpu": cpu}


def stored_bytes(log_dir: Path, topic: str) -> int:
    """Return the size of all segments of a topic in a log directory."""
    return sum(path.stat().st_size for path in log_dir.glob(f"{topic}-*/*.log"))


def wait_stored(log_dir: Path, topic: str, size: int) -> float:
    """Wait until the segments of a topic have this size, and return the time; raise RuntimeError after
    `FILLED_S_MAX`.
    """
    deadline = time.monotonic() + FILLED_S_MAX
    while (stored := stored_bytes(log_dir, topic)) < size:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} has {stored} of {size} bytes in {log_dir} after {FILLED_S_MAX} s")
        time.sleep(POLL_S)
    return time.monotonic()


FIGURES = {
    "rate": Figure("MB/s", True, 0),
    "seconds": Figure("s from the start of the process to full ISRs", digits=1),
    "cpu": Figure("CPU s of three nodes meanwhile", digits=1),
}

ROWS = (Row("cluster: emptied replica filled, 1 GiB", FIGURES, refill),)
