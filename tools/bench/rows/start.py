"""The time from the start of a broker's process to the first Metadata response that lists a broker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from tools.bench import volume
from tools.bench.peers import REPOSITORY
from tools.bench.row import Figure, Row, Stage, Topic

EXISTING_MESSAGES = 100_000


def start_fresh(stage: Stage) -> Mapping[str, float]:
    """Measure a start on a fresh data directory. Kafka's directory is formatted beforehand."""
    broker = stage.peer.start(stage.directory())
    broker.stop()
    return {"seconds": broker.start_seconds}


def start_existing(stage: Stage) -> Mapping[str, float] | None:
    """Measure a start on a directory with a topic of `EXISTING_MESSAGES`, after a clean stop."""
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


def start_in_process(stage: Stage) -> Mapping[str, float] | None:
    """Measure a start in a fresh Python process without data on disk, after imports, as in the test fixture."""
    if not stage.peer.in_process:
        return None
    command = [sys.executable, "-m", "tools.bench.rows.in_process"]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return {"milliseconds": float(run.stdout) * 1000}


ROWS = (
    Row("start, fresh directory", {"seconds": Figure("s", digits=3)}, start_fresh),
    Row("start, existing directory", {"seconds": Figure("s", digits=3)}, start_existing),
    Row("start in process, in memory", {"milliseconds": Figure("ms", digits=0)}, start_in_process),
)
