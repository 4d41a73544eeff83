"""From the spawn of a broker to its first Metadata answer that lists a broker."""

from __future__ import annotations

from collections.abc import Mapping

from tools.bench import volume
from tools.bench.row import Figure, Row, Stage, Topic

EXISTING_MESSAGES = 100_000


def start_fresh(stage: Stage) -> Mapping[str, float]:
    """On a fresh data directory; Kafka's is formatted before the clock runs."""
    broker = stage.peer.start(stage.directory())
    broker.stop()
    return {"seconds": broker.start_seconds}


def start_existing(stage: Stage) -> Mapping[str, float] | None:
    """On a directory with a topic of `EXISTING_MESSAGES`, after a clean stop."""
    if not stage.peer.durable:
        return None
    broker = stage.peer.start(stage.directory())
    topic = Topic(broker)
    topic.__enter__()
    volume.produce(broker, topic, EXISTING_MESSAGES, bytes(100))
    broker.stop()
    again = broker.restart()
    again.stop()
    return {"seconds": again.start_seconds}


ROWS = (
    Row("start, fresh directory", {"seconds": Figure("s", digits=3)}, start_fresh),
    Row("start, existing directory", {"seconds": Figure("s", digits=3)}, start_existing),
)
