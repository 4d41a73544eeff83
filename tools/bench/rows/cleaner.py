"""Compaction of keyed 100-byte records, alone and while a client produces to another topic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tools.bench import frames, load, volume
from tools.bench.peers import Broker
from tools.bench.row import Figure, Row, Stage, Topic

RECORDS, KEYS = 1_000_000, 200_000
VALUE = bytes(100)
ALONE, BESIDE = "compacted-alone", "compacted-beside"
NEVER, SOON = "1.0", "0.01"
CLEANING_S_MAX = 120
SLICE_S = 0.5
LOOK_S = 0.02


def clean(stage: Stage) -> Mapping[str, float] | None:
    """Return the records per second of the compaction of one log, and clients' latencies during another compaction."""
    if not stage.peer.cleaning:
        return None
    broker = stage.peer.start(stage.directory(), options=stage.peer.cleaning)
    try:
        for name in (ALONE, BESIDE):
            fill(broker, name)
        configure(broker, ALONE)
        begun = time.time()
        while not (cleaned := clean_up_to(broker, ALONE)):
            wait(broker, begun)
            time.sleep(LOOK_S)
        seconds = checkpoint(broker).stat().st_mtime - begun
        quiet, busy = latencies(broker)
    finally:
        broker.stop()
    return {"rate": cleaned / seconds, "quiet": quiet, "busy": busy}


def latencies(broker: Broker) -> tuple[float, float]:
    """Return the p99 in ms of small requests on one connection, before and during a compaction."""
    with Topic(broker) as topic:
        request = frames.produce(topic.name, 0, frames.batch(VALUE))
        quiet = load.drive([broker.port], [request])
        configure(broker, BESIDE)
        begun, found = time.time(), list[float]()
        while not clean_up_to(broker, BESIDE):
            wait(broker, begun)
            found += load.drive([broker.port], [request], seconds=SLICE_S).latencies
    return quiet.latency_ms(0.99), load.percentile(sorted(found), 0.99) * 1000


def wait(broker: Broker, begun: float) -> None:
    """Wait for the compaction; raise RuntimeError if it takes too long."""
    if time.time() - begun > CLEANING_S_MAX:
        raise RuntimeError(f"not compacted within {CLEANING_S_MAX} s:\n{broker.child.tail()}")


def fill(broker: Broker, name: str) -> None:
    """Write every key several times, without compaction."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    configs = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20), "min.cleanable.dirty.ratio": NEVER}
    for made in admin.create_topics([NewTopic(name, 1, 1, config=configs)]).values():
        made.result()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": volume.QUEUED_MAX})
    for sent in range(0, RECORDS, volume.AT_ONCE):
        some = [
            {"key": b"key-%09d" % (number * 7919 % KEYS), "value": VALUE}
            for number in range(sent, sent + volume.AT_ONCE)
        ]
        while len(producer) > volume.QUEUED_MAX - volume.AT_ONCE:
            producer.poll(0.01)
        producer.produce_batch(name, some)
    if left := producer.flush(volume.DRAIN_TIMEOUT_S):
        raise RuntimeError(f"{left} messages not acknowledged")


def configure(broker: Broker, name: str) -> None:
    """Change the configs so that compaction of the log is due."""
    entry = ConfigEntry("min.cleanable.dirty.ratio", SOON, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()


def checkpoint(broker: Broker) -> Path:
    """Return the path of the cleaner's checkpoint."""
    return broker.directory / "data" / "cleaner-offset-checkpoint"


def clean_up_to(broker: Broker, name: str) -> int:
    """Return the offset below which the log is compacted, or 0 until all its sealed segments are."""
    lines = checkpoint(broker).read_text().splitlines() if checkpoint(broker).exists() else []
    cleaned = next((int(line.split()[2]) for line in lines if line.startswith(f"{name} 0 ")), 0)
    active = max(int(path.stem) for path in (broker.directory / "data" / f"{name}-0").glob("*.log"))
    return cleaned if cleaned == active else 0


ROWS = (
    Row(
        "compaction, keyed 100-byte records",
        {
            "rate": Figure("records/s", True, 0),
            "quiet": Figure("produce p99 ms before"),
            "busy": Figure("produce p99 ms meanwhile"),
        },
        clean,
    ),
)
