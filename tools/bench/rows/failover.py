"""The time from kill -9 of a partition's leader to the next acknowledgement, for a raw client and for confluent-kafka.

The killed broker is never the controller. It is started again, and the next kill waits until the ISR is full.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from statistics import median

from confluent_kafka import KafkaError, Message, Producer

from tools.bench import cluster_requests, frames
from tools.bench.cluster import NODES, Cluster
from tools.bench.load import percentile
from tools.bench.raw_producer import RawProducer
from tools.bench.row import ClusterStage, Figure, Row, Stage

VALUE = bytes(100)
ACKNOWLEDGED_S_MAX = 60
PRODUCED_BEFORE = 20
"""The number of records that each client produces just before a kill, so that it knows the leader."""
DELETED_WITHIN_S = 30


def failover(stage: Stage) -> Mapping[str, float]:
    """Kill the leader of a partition again and again, whose two preferred leaders are not the controller."""
    assert isinstance(stage, ClusterStage)
    cluster = stage.cluster
    controller = cluster.controller()
    topic = f"failover-{uuid.uuid4().hex[:8]}"
    placed = [node_id for node_id in NODES if node_id != controller] + [controller]
    cluster_requests.create_placed(cluster.port_of(controller), topic, [placed])
    raw, confluent = list[float](), list[float]()
    for _ in range(stage.kills):
        cluster.wait_full(topic, 1)
        ours, theirs = _kill_once(cluster, topic, controller)
        raw.append(ours)
        confluent.append(theirs)
    cluster.wait_full(topic, 1)
    with frames.Caller(cluster.port_of(controller), DELETED_WITHIN_S) as caller:
        caller.call(frames.delete_topics([topic]))
    raw.sort()
    confluent.sort()
    return {
        "raw50": median(raw),
        "raw99": percentile(raw, 0.99),
        "confluent50": median(confluent),
        "confluent99": percentile(confluent, 0.99),
    }


def _kill_once(cluster: Cluster, topic: str, controller: int) -> tuple[float, float]:
    """Kill the leader; return the seconds of the raw client and of confluent-kafka. Start the broker again."""
    raw = RawProducer([cluster.port_of(node_id) for node_id in (controller, *NODES)], topic, VALUE)
    confluent = ConfluentProducer(cluster.bootstrap, topic)
    for _ in range(PRODUCED_BEFORE):
        raw.produce()
        confluent.produce()
    (leader,) = cluster.wait_full(topic, 1)
    seconds: list[float] = []
    begun = time.monotonic()

    def acknowledge() -> None:
        raw.produce()
        seconds.append(time.monotonic() - begun)

    cluster.kill(leader)
    waiting = threading.Thread(target=acknowledge)
    waiting.start()
    confluent.produce()
    theirs = time.monotonic() - begun
    waiting.join(ACKNOWLEDGED_S_MAX)
    raw.close()
    cluster.start(leader)
    cluster.wait_serving(leader)
    return seconds[0], theirs


class ConfluentProducer:
    """An idempotent producer of confluent-kafka that sends one record at a time without lingering."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        options = {"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True}
        self._producer = Producer({**options, "enable.metrics.push": False, "log_level": 0})
        self._topic = topic

    def produce(self) -> None:
        """Send one record with acks=all, and wait until it is acknowledged. Raise RuntimeError if it is not."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        self._producer.produce(self._topic, VALUE, partition=0, on_delivery=delivered)
        if self._producer.flush(ACKNOWLEDGED_S_MAX) or failed:
            raise RuntimeError(f"a record was not acknowledged: {failed}")


FIGURES = {
    "raw50": Figure("raw client, p50 s", digits=3),
    "raw99": Figure("raw client, p99 s", digits=3),
    "confluent50": Figure("confluent-kafka, p50 s", digits=3),
    "confluent99": Figure("confluent-kafka, p99 s", digits=3),
}

ROWS = (Row("cluster: kill -9 of a leader to the next acknowledgement", FIGURES, failover, noisy=False),)
