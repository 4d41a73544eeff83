"""How long the loop of a broker is away from those who wait: its passes over the ready connections, under all loads."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Mapping

from tools.bench.peers import free_port
from tools.bench.row import Figure, Row, Stage
from tools.bench.rows import requests, topics, volume

MESSAGES = 300_000


def measure(stage: Stage) -> Mapping[str, float] | None:
    """What a broker has counted that was given volume, small requests and a thousand topics, one after the other."""
    if not stage.peer.in_process:
        return None
    port = free_port()
    broker = stage.peer.start(stage.directory(), options=("--console", f"127.0.0.1:{port}"))
    try:
        loaded = Stage(stage.peer, broker, stage.scratch)
        for size in (100, 1024):
            volume.produce(loaded, MESSAGES, size)
            volume.consume(loaded, MESSAGES, size)
        for connections, in_flight in ((1, 1), (10, 1), (100, 1), (10, 5)):
            requests.produce(loaded, connections, in_flight)
        requests.metadata(loaded, 10)
        topics.create(loaded)
        counted = scraped(port)
    finally:
        broker.stop()
    return {"longest": counted["loop_step_longest_seconds"] * 1000,
            "slow": counted["loop_steps_slow_total"] / counted["loop_steps_total"] * 1000}


def scraped(port: int) -> dict[str, float]:
    """The plain numbers of a console, by their names without the broker's own prefix."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r"^pykbroker_(\w+) (\S+)$", text, re.MULTILINE)}


FIGURES = {"slow": Figure("over 20 ms, of 1,000", digits=3), "longest": Figure("longest ms", digits=1)}
ROWS = (Row("steps of the loop, all loads", FIGURES, measure, noisy=False),)
