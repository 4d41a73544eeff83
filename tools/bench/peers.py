"""The brokers that are measured, each as a child process on a port of its own.

python -m tools.bench.peers kafka          # run one until Ctrl-C and print its address
python -m tools.bench.peers kafka --directory data

Kafka needs ``java`` (17) and, the first time, ``mvn``. kfake needs ``go`` the first time. Both peers are kept in
``.cache``.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import kafka_jars
from tools.bench import frames
from tools.bench.child import Child
from tools.broker_process import PYKBROKER

REPOSITORY = Path(__file__).resolve().parents[2]
KFAKE = REPOSITORY / ".cache" / "peers" / "kfake"
START_TIMEOUT_S = 60

SERVER_PROPERTIES = """process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
log.dirs={log_dirs}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""

# Options of the JVM, from Kafka's own start script.
JVM_OPTIONS = [
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]


def free_port() -> int:
    """Return a port on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class Peer:
    """A kind of broker. `prepare` creates a fresh data directory, and `command` starts the broker on it."""

    name: str
    fetch: Callable[[], None]
    prepare: Callable[[Path, int], None]
    command: Callable[[Path, int], list[str]]
    idempotent: bool = True
    durable: bool = True
    spark: bool = True
    in_process: bool = False
    waits_for_session: bool = False
    flushing: tuple[str, ...] = ()
    """The options with which every record is fsynced before it is acknowledged."""
    cleaning: tuple[str, ...] = ()
    """The options with which a log is compacted as soon as it has a sealed segment."""

    def start(self, directory: Path, *, fresh: bool = True, options: tuple[str, ...] = ()) -> Broker:
        """Start the broker on `directory`, and wait for its first Metadata response.

        `Broker.start_seconds` is the time between.
        """
        self.fetch()
        directory.mkdir(parents=True, exist_ok=True)
        port_file = directory / "port"
        if fresh or not port_file.exists():
            port_file.write_text(str(free_port()))
            self.prepare(directory, int(port_file.read_text()))
        port = int(port_file.read_text())
        begun = time.monotonic()
        child = Child([*self.command(directory, port), *options], directory / "output.log")
        try:
            wait_until_serving(child, port)
        except BaseException:
            child.kill()
            raise
        return Broker(self, child, port, directory, time.monotonic() - begun)


@dataclass
class Broker:
    """A running broker of some kind."""

    peer: Peer
    child: Child
    port: int
    directory: Path
    start_seconds: float
    replicas: int = 1
    """The replication factor of topics that rows create."""

    def leader_ports(self, topic: str, partitions: int) -> list[int]:
        """Return the port of the leader of each partition of a topic that was just created."""
        return [self.port] * partitions

    def cpu_seconds(self) -> float:
        """Return the CPU time that the broker has used so far."""
        return self.child.cpu_seconds()

    @property
    def bootstrap(self) -> str:
        """Return the bootstrap servers for a client."""
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Stop the broker; keep its directory."""
        self.child.stop()

    def restart(self) -> Broker:
        """Start the broker again on the same directory and port."""
        return self.peer.start(self.directory, fresh=False)


def wait_until_serving(child: Child, port: int) -> None:
    """Request Metadata every millisecond until a response lists a broker; raise RuntimeError if the process ends
    before.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    request = frames.metadata()
    while time.monotonic() < deadline:
        if not child.alive:
            raise RuntimeError(f"the broker ended at its start:\n{child.tail()}")
        try:
            with frames.Caller(port, 5) as caller:
                while not frames.broker_count(caller.call(request)):
                    time.sleep(0.001)
                return
        except OSError:
            time.sleep(0.001)
    raise RuntimeError(f"the broker did not serve within {START_TIMEOUT_S} s:\n{child.tail()}")


def need(program: str) -> str:
    """Return the path of a program; raise RuntimeError with the name of the broker that needs it if it is missing."""
    path = shutil.which(program)
    if path is None:
        raise RuntimeError(f"{program} is not installed; it is needed to download or run this broker")
    return path


def fetch_kafka() -> None:
    """Fetch Kafka's jars from Maven unless they are in the cache."""
    kafka_jars.fetch()


def fetch_kfake() -> None:
    """Build kfake with the versions that ``kfake/go.mod`` pins, unless it is in the cache."""
    if not KFAKE.exists():
        KFAKE.parent.mkdir(parents=True, exist_ok=True)
        source = Path(__file__).with_name("kfake")
        subprocess.run([need("go"), "build", "-buildvcs=false", "-o", str(KFAKE), "."], cwd=source, check=True)


def java(main: str, *arguments: str) -> list[str]:
    """Return a command that runs one of Kafka's main classes."""
    return [need("java"), *JVM_OPTIONS, "-cp", f"{kafka_jars.JARS}/*", main, *arguments]


def prepare_kafka(directory: Path, port: int, names: Sequence[str] = ("data",)) -> None:
    """Format a KRaft node that is broker and controller, with log directories of these names."""
    properties = directory / "server.properties"
    log_dirs = ",".join(str(directory / name) for name in names)
    values = {"port": port, "controller_port": free_port(), "log_dirs": log_dirs}
    properties.write_text(SERVER_PROPERTIES.format(**values))
    for name in names:
        shutil.rmtree(directory / name, ignore_errors=True)
    format_kafka(properties)


def format_kafka(properties: Path) -> None:
    """Format the log directories of a KRaft node with this config file."""
    cluster_id = "YmVuY2gtYmVuY2gtYmVuYw"
    command = java("kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id, "-c", str(properties))
    completed = subprocess.run(command, check=False, capture_output=True, text=True)
    if completed.returncode:
        raise RuntimeError(f"Kafka's directory could not be formatted:\n{completed.stdout}{completed.stderr}")


def prepare_nothing(directory: Path, port: int) -> None:
    """Remove the files of an earlier run; the broker needs no formatting."""
    shutil.rmtree(directory / "data", ignore_errors=True)


def kafka_command(directory: Path, port: int) -> list[str]:
    """Return the command for Apache Kafka."""
    return java("kafka.Kafka", str(directory / "server.properties"))


def kfake_command(directory: Path, port: int) -> list[str]:
    """Return the command for franz-go's kfake, which stores data in memory."""
    return [str(KFAKE), "-port", str(port)]


def pykbroker_command(directory: Path, port: int, program: Sequence[str] = PYKBROKER) -> list[str]:
    """Return the command for this broker, by default run from the source tree."""
    return [*program, "start", "--listen", f"127.0.0.1:{port}", "--data-dir", str(directory / "data")]


def fetch_nothing() -> None:
    """Do nothing, since the broker is installed already."""


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "pykbroker",
            fetch_nothing,
            prepare_nothing,
            pykbroker_command,
            in_process=True,
            flushing=("--set", "pykbroker.flush.before.ack=true"),
            cleaning=("--set", "log.cleaner.backoff.ms=50"),
        ),
        Peer(
            "kafka",
            fetch_kafka,
            prepare_kafka,
            kafka_command,
            waits_for_session=True,
            flushing=("--override", "log.flush.interval.messages=1"),
            cleaning=("--override", "log.cleaner.backoff.ms=50"),
        ),
        # kafka-clients 3.9, which Spark contains, fails on the null lists in kfake's DescribeTopicPartitions responses.
        Peer("kfake", fetch_kfake, prepare_nothing, kfake_command, durable=False, spark=False),
    )
}


def main() -> None:
    """Run one peer until it is interrupted."""
    parser = argparse.ArgumentParser(description="Run one broker until Ctrl-C.")
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        broker = PEERS[options.peer].start(options.directory or Path(temporary))
        print(broker.bootstrap, flush=True)
        try:
            while broker.child.alive:
                time.sleep(1)
        except KeyboardInterrupt:
            pass
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
