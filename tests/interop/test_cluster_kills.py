"""Three brokers under load while processes are killed, paused, cut off and restarted.

With PYKBROKER_TEST_SOAK_S=300 each test injects its faults for 300 s. Cuts between brokers are made between network
namespaces, and by proxies where namespaces cannot be created or PYKBROKER_TEST_CUTS is "proxies".
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient

from tests.interop.cluster_judge import judge, judge_replicas, wait_in_sync
from tests.interop.cluster_load import CALL_S_MAX, QUICK, Load, prefer
from tests.interop.namespaces import Namespaces, NoNamespaces
from tests.interop.our_cluster import REPLICATED, SETTINGS, OurCluster
from tests.interop.proxies import Proxies
from tests.interop.soak import TIMEOUT_S, faults_of_soak

NAMESPACES_WANTED = os.environ.get("PYKBROKER_TEST_CUTS", "namespaces") == "namespaces"
pytestmark = pytest.mark.timeout(TIMEOUT_S)
CONTROLLER = 1
SESSION_S = 2.0
logger = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def namespaces() -> Iterator[Namespaces | None]:
    """Yield a network namespace for each broker, or None where they cannot be created."""
    if not NAMESPACES_WANTED:
        yield None
        return
    try:
        created = Namespaces(3)
    except NoNamespaces as reason:
        logger.warning("%s", reason)
        yield None
        return
    try:
        yield created
    finally:
        created.close()


@contextmanager
def running_cluster(work: Path, network: Namespaces | Proxies | None) -> Iterator[OurCluster]:
    """Run three brokers, which must end without a bug."""
    running = OurCluster(work, 3, (*SETTINGS, *REPLICATED), network)
    try:
        yield running
        assert running.stop() == [0, 0, 0]
        logs = [node.stderr.read_text() for node in running.nodes.values()]
        assert not any("Traceback" in log or "ERROR" in log for log in logs), "\n".join(logs)
    finally:
        running.kill()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, namespaces: Namespaces | None) -> Iterator[OurCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), namespaces) as running:
        yield running


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[OurCluster, Proxies]]:
    """Yield a cluster whose nodes connect to each other through proxies, and the proxies."""
    proxies = Proxies()
    try:
        with running_cluster(tmp_path, proxies) as running:
            yield running, proxies
    finally:
        proxies.close()


Fault = Callable[["Stage"], str]
"""A fault that has ended when the function returns. The text says what has happened."""


class Stage:
    """A cluster under load, and the faults that a test injects one after another."""

    def __init__(self, cluster: OurCluster, network: Namespaces | Proxies | None, load: Load) -> None:
        self.cluster, self._network, self.load = cluster, network, load
        self.dice = Random("cluster kills")
        self.count = 0

    def run(self, faults: list[Fault], rarer: Sequence[Fault] = ()) -> None:
        """Inject each fault once, or random ones, also the rarer ones, for the time of a soak.

        All replicas are in sync before each fault.
        """
        for fault in faults_of_soak(faults, rarer, self.dice):
            self.rest()
            begun = time.monotonic()
            what = fault(self)
            self.load.wait_served()
            self.count += 1
            gaps = ", ".join(f"{writer.name} {writer.gap_s(begun):.2f} s" for writer in self.load.writers)
            logger.info("%s: longest gap: %s", what, gaps)
        wait_in_sync(self.cluster.bootstrap)
        judge(self.load)
        wait_in_sync(self.cluster.bootstrap)
        judge_replicas({node_id: self.cluster.directory(node_id) for node_id in self.cluster.nodes}, self.load)
        counts = {writer.name: len(writer.acked) for writer in self.load.writers}
        commits = {group: each.count for group, each in self.load.commits.items()}
        found = f"{len(self.load.errors)} errors, {self.load.given_up} copiers given up"
        logger.info("%d faults, %s records, %s commits, %s", self.count, counts, commits, found)

    def rest(self) -> None:
        """Wait until all replicas are in sync, and let the brokers share the leaderships again."""
        wait_in_sync(self.cluster.bootstrap)
        prefer(self.cluster.bootstrap, self.load.source)

    @property
    def network(self) -> Namespaces | Proxies:
        """Return the network of a cluster that can be cut."""
        assert self._network is not None
        return self._network

    def other(self) -> int:
        """Return a random node that is not the controller."""
        return self.dice.choice([node_id for node_id in self.cluster.nodes if node_id != CONTROLLER])

    def led_by(self, node_id: int, asked: int) -> set[int]:
        """Return the partitions of the source that a node leads, as another broker says."""
        admin = AdminClient({"bootstrap.servers": self.cluster.nodes[asked].address, **QUICK})
        topic = admin.list_topics(self.load.source, CALL_S_MAX).topics[self.load.source]
        return {index for index, one in topic.partitions.items() if one.leader == node_id}


@pytest.fixture
def stage(cluster: OurCluster, namespaces: Namespaces | None) -> Iterator[Stage]:
    with Load(cluster.bootstrap) as load:
        yield Stage(cluster, namespaces, load)


def pass_time(seconds: float) -> None:
    """Wait for so many seconds, while a fault lasts."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.02)


# ---- kills


def kill_until_served(stage: Stage) -> str:
    """Kill a broker and start it again once its partitions are served by others."""
    node_id = stage.other()
    stage.cluster.nodes[node_id].kill()
    stage.load.wait_served()
    stage.cluster.nodes[node_id].start()
    return f"broker {node_id} killed, and started once its partitions were served"


def kill_and_start(stage: Stage) -> str:
    """Kill a broker and start it again at once."""
    node_id = stage.other()
    stage.cluster.nodes[node_id].restart()
    return f"broker {node_id} killed and started"


def kill_controller(stage: Stage) -> str:
    """Kill the process of the controller and start it again at once."""
    stage.cluster.nodes[CONTROLLER].restart()
    return "controller killed and started"


def kill_both(stage: Stage) -> str:
    """Kill the controller, and a broker before the controller is back."""
    node_id = stage.other()
    stage.cluster.nodes[CONTROLLER].kill()
    stage.cluster.nodes[node_id].kill()
    stage.cluster.nodes[CONTROLLER].start()
    stage.cluster.nodes[node_id].start()
    return f"controller and broker {node_id} killed and started"


def test_kills_lose_double_and_reorder_nothing(stage: Stage) -> None:
    stage.run([kill_until_served, kill_controller, kill_and_start, kill_both])


# ---- pauses


def pause_leader(stage: Stage) -> str:
    """Stop a leader's process until others lead its partitions and serve them."""
    node_id = stage.other()
    process = stage.cluster.nodes[node_id].pid
    os.kill(process, signal.SIGSTOP)
    try:
        while stage.led_by(node_id, CONTROLLER):
            time.sleep(0.05)
        stage.load.wait_served()
    finally:
        os.kill(process, signal.SIGCONT)
    return f"broker {node_id} paused"


def pause_controller(stage: Stage) -> str:
    """Stop the process of the controller for longer than the session of a broker."""
    process = stage.cluster.nodes[CONTROLLER].pid
    os.kill(process, signal.SIGSTOP)
    try:
        pass_time(SESSION_S + 0.5)
    finally:
        os.kill(process, signal.SIGCONT)
    return "controller paused"


def test_a_paused_leader_loses_doubles_and_reorders_nothing(stage: Stage) -> None:
    stage.run([pause_leader, pause_controller])


# ---- cuts


def cut_off(stage: Stage) -> str:
    """Cut a broker off from all others, but not from the clients, until others serve its partitions."""
    node_id = stage.other()
    stage.network.isolate(node_id)
    return served_by_others(stage, node_id, "cut off")


def cut_outward(stage: Stage) -> str:
    """Lose all that a broker sends to the others, until they serve its partitions."""
    node_id = stage.other()
    for other in stage.cluster.nodes:
        if other != node_id:
            stage.network.cut(node_id, other)
    return served_by_others(stage, node_id, "not heard")


def cut_inward(stage: Stage) -> str:
    """Lose all that is sent to a broker by the others, until they serve its partitions."""
    node_id = stage.other()
    for other in stage.cluster.nodes:
        if other != node_id:
            stage.network.cut(other, node_id)
    return served_by_others(stage, node_id, "deaf")


def served_by_others(stage: Stage, node_id: int, what: str) -> str:
    try:
        while stage.led_by(node_id, CONTROLLER):
            time.sleep(0.05)
        stage.load.wait_served()
    finally:
        stage.network.heal()
    return f"broker {node_id} {what}"


def cut_between_followers(stage: Stage) -> str:
    """Cut the brokers that are not the controller off from each other: their ISRs shrink, and they serve on."""
    two = [node_id for node_id in stage.cluster.nodes if node_id != CONTROLLER]
    for source, target in (two, two[::-1]):
        stage.network.cut(source, target)
    try:
        stage.load.wait_served()
    finally:
        stage.network.heal()
    return f"brokers {two} cut off from each other"


def cut_controller_off(stage: Stage) -> str:
    """Cut the controller off from all brokers, for longer than their sessions."""
    stage.network.isolate(CONTROLLER)
    try:
        pass_time(SESSION_S + 0.5)
    finally:
        stage.network.heal()
    return "controller cut off"


def flap(stage: Stage) -> str:
    """Cut a broker off and heal the network several times, each for less than a session."""
    node_id = stage.other()
    for _ in range(5):
        stage.network.isolate(node_id)
        pass_time(stage.dice.uniform(0.1, 0.5))
        stage.network.heal()
        pass_time(stage.dice.uniform(0.1, 0.5))
    return f"broker {node_id} cut off five times"


CUTS: list[Fault] = [cut_off, cut_outward, cut_inward, cut_controller_off]
RARER_CUTS: list[Fault] = [cut_between_followers, flap]


def test_cuts_between_brokers_lose_double_and_reorder_nothing(
    request: pytest.FixtureRequest, namespaces: Namespaces | None
) -> None:
    if namespaces is None:
        pytest.skip("without namespaces, the test with proxies makes all cuts")
    stage: Stage = request.getfixturevalue("stage")
    stage.run(CUTS, RARER_CUTS)


def test_cuts_by_proxies_lose_double_and_reorder_nothing(
    proxied: tuple[OurCluster, Proxies], namespaces: Namespaces | None
) -> None:
    cluster, proxies = proxied
    with Load(cluster.bootstrap) as load:
        stage = Stage(cluster, proxies, load)
        if namespaces is None:
            stage.run(CUTS, RARER_CUTS)
        else:  # the test with namespaces makes all cuts
            stage.run([cut_outward])


# ---- a rolling restart


def restart_all(stage: Stage) -> str:
    """Restart all brokers, each once the replicas of the one before it are in sync again."""
    for _, node in sorted(stage.cluster.nodes.items(), reverse=True):
        assert node.stop() == 0
        stage.load.wait_served()
        node.start()
        wait_in_sync(stage.cluster.bootstrap)
    return "all brokers restarted"


def test_a_rolling_restart_gives_clients_no_error(stage: Stage) -> None:
    stage.run([restart_all])
    assert stage.load.errors == []
