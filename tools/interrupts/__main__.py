"""The command: parse the options, run every face, and exit with 1 if anything was found."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import uuid
from contextlib import nullcontext
from pathlib import Path

import tools.interrupts
from pykbroker.testing import running_broker
from tools.interrupts import processes, sends
from tools.interrupts.programs import CONSUMERS, PRODUCERS


def new_topic(servers: str, name: str) -> str:
    """Create a topic, and return its name, which begins with `name`."""
    topic = f"{name}-{uuid.uuid4().hex[:8]}"
    partitions = ("--partitions", str(processes.PARTITIONS))
    command = [sys.executable, "-m", "pykbroker", "topics", "create", topic, *partitions, "--bootstrap", servers]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return topic


def run_processes(servers: str, count: int, jobs: int, kinds: list[str], faces: list[str]) -> bool:
    """Run this number of processes of each kind and face. Return whether nothing was found."""
    results, first = [], 0
    read = new_topic(servers, "read")
    processes.fill(servers, read)
    with tempfile.TemporaryDirectory() as directory, processes.ForkServer(Path(directory)) as server:
        for kind in kinds:
            for face in faces:
                topic = read if kind == "consumer" else new_topic(servers, "sent")
                numbers = range(first, first + count)
                first += count
                ended = processes.run_all(server, kind, face, servers, topic, numbers, jobs)
                results.append(processes.judge(kind, face, ended, servers, topic))
    return all(results)


def main() -> int:
    """Run all faces, or those that are named."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.interrupts",
        description=tools.interrupts.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--signals", type=int, default=0, help="interrupt the sends of one process so often")
    parser.add_argument("--processes", type=int, default=0, help="interrupt so many programs of each kind and face")
    parser.add_argument("--jobs", type=int, default=4, help="the programs that run at the same time")
    parser.add_argument("--kind", action="append", choices=("producer", "consumer"))
    parser.add_argument("--face", action="append", choices=tuple(PRODUCERS))
    parser.add_argument("--servers")
    given = parser.parse_args()
    if not (given.signals or given.processes):
        parser.error("pass --signals or --processes")
    faces, is_good = given.face or list(CONSUMERS), True
    with nullcontext() if given.servers else running_broker(process=True) as broker:
        servers = given.servers if broker is None else broker.bootstrap
        if given.signals:
            is_good = sends.run_faces(faces, servers, new_topic(servers, "interrupted"), given.signals)
        if given.processes:
            kinds = given.kind or ["producer", "consumer"]
            is_good = run_processes(servers, given.processes, given.jobs, kinds, faces) and is_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
