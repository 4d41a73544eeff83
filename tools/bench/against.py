"""A comparison of this tree with an earlier commit: what its changes make the broker and the clients cost.

    .venv/bin/python -m tools.bench.against COMMIT [--kinds broker,clients,cluster] [--only TEXT] [--pairs 5] [--cold]

Rows of a broker have its CPU time, and rows of a client that of the client.

1. The two builds differ in the packages `pykbroker` and `wire` alone. Both run in this Python, with its libraries and
   under the load of this tree's clients. They are copies, so that edits during a run change nothing.
2. A pair begins with new processes, since two processes of one build differ by several percent. Within a pair the order
   is before, after, after, before, so that a machine that becomes slower favours neither build.
3. The table has the median of the pairs' ratios and their range. A ratio is the figure after divided by the figure
   before: 1.03 is 3 percent more. CPU times vary less than rates.
4. A client that the commit lacks is left out of the table.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.bench import consumers, producers
from tools.bench.build import Build
from tools.bench.change import AFTER, BEFORE, HEADING, Change
from tools.bench.clients import Measured
from tools.bench.cluster import OurKind
from tools.bench.row import Figure, Row, Stage
from tools.bench.rows import cluster, end_to_end, idle, requests, start, volume
from tools.bench.run import cluster_stages, measure, stages

TURNS = 2
"""The number of measurements of each build in a pair."""
OTHER_CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka")
CLIENT_FIGURES = {
    "rate": Figure("k msg/s", True, 0),
    "cpu": Figure("client CPU s/M msg", digits=3),
    "p50": Figure("p50 ms"),
    "p99": Figure("p99 ms"),
}
Opened = contextlib.AbstractContextManager[Sequence[Stage]]


@dataclass(frozen=True)
class Kind:
    """Rows of one kind. `opened` starts, in an empty directory, what they measure in one pair."""

    rows: Sequence[Row]
    opened: Callable[[Sequence[Build], Path], Opened]


def broker_kind(cold: bool) -> Kind:
    """Return the rows of one broker. Both builds are warmed up before, unless `cold` is set."""
    rows = [*start.ROWS, *idle.ROWS, *requests.ROWS, *volume.ROWS, *end_to_end.ROWS]
    return Kind(rows, lambda builds, scratch: stages([build.peer for build in builds], scratch, cold=cold))


def cluster_kind(cold: bool) -> Kind:
    """Return the rows of three nodes with three replicas."""

    def opened(builds: Sequence[Build], scratch: Path) -> Opened:
        kinds = {build.name: OurKind(program=build.program) for build in builds}
        return cluster_stages([build.peer for build in builds], scratch, cold=cold, kills=0, kinds=kinds)

    return Kind(cluster.ROWS, opened)


def client_kind(builds: Sequence[Build]) -> Kind:
    """Return the rows of our producers and consumers, under one broker of this tree."""
    pythons = {build.name: build.python for build in builds}

    def client(
        measure_one: Callable[[str, str, Sequence[str]], Measured], name: str, stage: Stage
    ) -> Mapping[str, float] | None:
        try:
            return measure_one(name, stage.broker.bootstrap, pythons[stage.peer.name])
        except subprocess.CalledProcessError as failure:
            print(f"  {name}: {stage.peer.name}: {failure.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return None

    @contextlib.contextmanager
    def opened(builds: Sequence[Build], scratch: Path) -> Iterator[Sequence[Stage]]:
        broker = next(build.peer for build in builds if build.name == AFTER).start(scratch)
        try:
            yield [Stage(build.peer, broker, scratch) for build in builds]
        finally:
            broker.stop()

    rows = [
        Row(f"{title}: {name}", CLIENT_FIGURES, partial(client, module.measure, name))
        for title, module in (("producer", producers), ("consumer", consumers))
        for name in module.CLIENTS
        if not any(other in name for other in OTHER_CLIENTS)
    ]
    return Kind(rows, opened)


def compare(kind: Kind, builds: Sequence[Build], only: str, pairs: int) -> list[Change]:
    """Measure the rows of a kind whose name contains `only`. The build that is first changes from pair to pair."""
    rows = [row for row in kind.rows if only in row.name]
    changes = {(row.name, key): Change(row.name, figure) for row in rows for key, figure in row.figures.items()}
    for pair in range(pairs if rows else 0):
        order = builds if pair % 2 == 0 else builds[::-1]
        with (
            tempfile.TemporaryDirectory(prefix="against-", ignore_cleanup_errors=True) as scratch,
            kind.opened(order, Path(scratch)) as on,
        ):
            for row in rows:
                for line in measure(row, on, TURNS):
                    changes[row.name, line.key].add(line.values)
    return [change for change in changes.values() if change.pairs]


def main() -> None:
    """Parse the command line, measure, and print the table of each kind of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="the commit to measure this tree against")
    parser.add_argument("--kinds", default="broker,clients", help="kinds of rows: broker, clients, cluster")
    parser.add_argument("--only", default="", help="measure only rows whose name contains this text")
    parser.add_argument("--pairs", type=int, default=5, help="the number of pairs (default: 5)")
    parser.add_argument("--cold", action="store_true", help="do not warm up the brokers, to try a row quickly")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="builds-") as scratch:
        try:
            before = Build.of_commit(BEFORE, Path(scratch, BEFORE), options.commit)
        except RuntimeError as refusal:
            parser.error(str(refusal))
        builds = (before, Build.of_tree(AFTER, Path(scratch, AFTER)))
        kinds = {
            "broker": broker_kind(options.cold),
            "clients": client_kind(builds),
            "cluster": cluster_kind(options.cold),
        }
        for name in options.kinds.split(","):
            changes = compare(kinds[name], builds, options.only, options.pairs)
            print("\n".join([f"\n{HEADING}", *(change.markdown() for change in changes)]), flush=True)


if __name__ == "__main__":
    main()
