"""Measure several brokers on this machine: ``python tools/bench/run.py [--peers kafka,kfake] [--only NAME] [--pairs
5]``.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.bench import frames, load, report, volume
from tools.bench.cluster import KINDS, Cluster, ClusterKind
from tools.bench.peers import PEERS, Broker, Peer
from tools.bench.row import ClusterStage, Row, Stage, Topic
from tools.bench.secured import SECURABLE, secured_stages
from tools.bench.table import CLUSTER_ROWS, ROWS, SECURITY_ROWS

RESULTS = Path(__file__).with_name("RESULTS.md")
WARM_MESSAGES = 1_000_000
WARM_REQUESTS_S = 4


def warm(broker: Broker) -> None:
    """Produce and consume a million messages, then send small requests for some seconds."""
    with Topic(broker) as topic:
        volume.produce(broker, topic, WARM_MESSAGES, bytes(100))
        volume.consume(broker, topic, WARM_MESSAGES)
        records = frames.batch(bytes(100))
        requests = [frames.produce(topic.name, index % topic.partitions, records) for index in range(10)]
        ports = [topic.ports[index % topic.partitions] for index in range(10)]
        load.drive(ports, requests, seconds=WARM_REQUESTS_S)


@contextlib.contextmanager
def stages(peers: Sequence[Peer], scratch: Path, *, cold: bool) -> Iterator[list[Stage]]:
    """Run all brokers at once, and warm them up unless `cold` is set.

    An idle broker disturbs a measurement less than a cold broker distorts it.
    """
    with contextlib.ExitStack() as running:
        made = []
        for peer in peers:
            broker = peer.start(scratch / peer.name)
            running.callback(broker.stop)
            if not cold:
                warm(broker)
            made.append(Stage(peer, broker, scratch))
        yield made


@contextlib.contextmanager
def cluster_stages(
    peers: Sequence[Peer], scratch: Path, *, cold: bool, kills: int, kinds: Mapping[str, ClusterKind] = KINDS
) -> Iterator[list[ClusterStage]]:
    """Run a cluster of each kind at once, and warm them up unless `cold` is set."""
    with contextlib.ExitStack() as running:
        made = []
        for peer in peers:
            cluster = Cluster(peer, scratch / f"{peer.name}-cluster", kinds[peer.name])
            running.callback(cluster.stop)
            if not cold:
                warm(cluster)
            made.append(ClusterStage(peer, cluster, scratch, cluster, kills))
        yield made


def measure(row: Row, on: Sequence[Stage], pairs: int) -> list[report.Line]:
    """Measure a row on each broker in turn. A noisy row is measured `pairs` times, each time in the opposite order."""
    values: dict[str, dict[str, list[float]]] = {key: {} for key in row.figures}
    for turn in range(-1 if row.warms_up else 0, pairs if row.noisy else 1):
        for stage in on if turn % 2 == 0 else list(reversed(on)):
            begun = time.monotonic()
            for key, value in (row.measure(stage) or {}).items():
                if key in values and turn >= 0:
                    values[key].setdefault(stage.peer.name, []).append(value)
            print(f"  {row.name}: {stage.peer.name}, {time.monotonic() - begun:.1f} s", file=sys.stderr)
    return [report.Line(row, key, values[key]) for key in row.figures]


def measure_all(
    rows: Sequence[Row], made: contextlib.AbstractContextManager[Sequence[Stage]], pairs: int, results: Path
) -> None:
    """Measure rows on the brokers that `made` starts, if there are any, and write the table after each."""
    if not rows:
        return
    with made as on:
        for row in rows:
            lines = measure(row, on, pairs)
            print("\n".join(line.markdown() for line in lines), flush=True)
            report.write(results, lines)


def main() -> None:
    """Parse the command line, measure, and write the table after each row."""
    parser = argparse.ArgumentParser(description="Measure brokers side by side on this machine.")
    parser.add_argument(
        "--peers", default="kafka,kfake", help="the brokers to measure beside pykbroker (default: kafka,kfake)"
    )
    parser.add_argument("--only", default="", help="measure only rows whose name contains this text")
    parser.add_argument(
        "--pairs", type=int, default=5, help="the number of alternating runs of a noisy row (default: 5)"
    )
    parser.add_argument("--kills", type=int, default=30, help="the number of fail-overs of a cluster (default: 30)")
    parser.add_argument("--without-pykbroker", action="store_true", help="measure only the other brokers")
    parser.add_argument("--cold", action="store_true", help="do not warm up the brokers, to try a row quickly")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file with the table to update")
    options = parser.parse_args()
    for package in ("pykbroker", "wire"):  # This is how an installed package runs.
        compileall.compile_dir(Path(__file__).resolve().parents[2] / package, quiet=1)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    names = ([] if options.without_pykbroker else ["pykbroker"]) + [name for name in options.peers.split(",") if name]
    scratch = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        peers = [PEERS[name] for name in names]
        clustered = [peer for peer in peers if peer.name in KINDS]
        securable = [peer for peer in peers if peer.name in SECURABLE]
        for rows, made in (
            (ROWS, stages(peers, scratch, cold=options.cold)),
            (SECURITY_ROWS, secured_stages(securable, scratch, None if options.cold else warm)),
            (CLUSTER_ROWS, cluster_stages(clustered, scratch, cold=options.cold, kills=options.kills)),
        ):
            measure_all([row for row in rows if options.only in row.name], made, options.pairs, options.results)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
