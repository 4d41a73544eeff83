"""Three brokers whose network loses everything between some of them, without a reset, and then heals.

With PYKBROKER_TEST_CUT_S=60 each cut lasts for 60 s. By default it lasts for longer than the time after which a
connection without acknowledgements ends, so that TCP's retransmissions would be seconds apart when the network heals.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.cluster_judge import wait_in_sync
from tests.interop.cluster_load import QUICK
from tests.interop.namespaces import Namespaces, NoNamespaces
from tests.interop.our_cluster import SETTINGS, OurCluster

CUT_S = float(os.environ.get("PYKBROKER_TEST_CUT_S", "14"))
"""The length of a cut in seconds."""
ACKED_S_MAX, IN_SYNC_S_MAX = 5.0, 10.0
"""The time from the end of a cut to the first acknowledgement, and to full ISRs, in seconds."""
CONTROLLER, FOLLOWER = 1, 3
PARTITIONS = 6
WAITING_MAX = 100
REPLICATED = (
    "default.replication.factor=3",
    "min.insync.replicas=2",
    "offsets.topic.replication.factor=3",
    "transaction.state.log.replication.factor=3",
    "transaction.state.log.min.isr=2",
)
"""Settings for three replicas of everything, with Kafka's time-outs."""
pytestmark = pytest.mark.timeout(2 * CUT_S + 120)
logger = logging.getLogger(__name__)


class AckedTimes:
    """A producer that writes to all partitions, and the time of its newest acknowledgement of each partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic, self._last_s, self._waiting, self._ended = topic, dict.fromkeys(range(PARTITIONS), 0.0), 0, False
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, **QUICK})
        self._thread = threading.Thread(target=self._produce)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()
        assert self._producer.flush(30) == 0

    def _produce(self) -> None:
        index = 0
        while not self._ended:
            if self._waiting < WAITING_MAX:
                self._producer.produce(self._topic, b"x", partition=index % PARTITIONS, on_delivery=self._delivered)
                self._waiting += 1
                index += 1
            self._producer.poll(0.01)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._waiting -= 1
        if error is None:
            self._last_s[message.partition() or 0] = time.monotonic()

    def wait_after(self, time_s: float, within_s: float) -> float:
        """Wait until a record is acknowledged after this time, and return how long after it that was."""
        while (newest := max(self._last_s.values())) <= time_s:
            assert time.monotonic() < time_s + within_s, f"nothing is acknowledged {within_s:g} s after the cut"
            time.sleep(0.01)
        return newest - time_s


@pytest.fixture
def networks() -> Iterator[list[Namespaces]]:
    """Yield two networks with a namespace for each broker of a cluster."""
    with contextlib.ExitStack() as stack:
        created = []
        try:
            for _ in range(2):
                created.append(Namespaces(3))
                stack.callback(created[-1].close)
        except NoNamespaces as reason:
            pytest.skip(str(reason))
        yield created


def cut_and_heal(directory: Path, namespaces: Namespaces, node_id: int) -> None:
    """Start a cluster, cut a node off, and check how soon after the end of the cut the cluster is whole again."""
    directory.mkdir()
    cluster = OurCluster(directory, 3, (*SETTINGS, *REPLICATED), namespaces)
    try:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUICK})
        admin.create_topics([NewTopic("cut", PARTITIONS, 3)])["cut"].result(20)
        with AckedTimes(cluster.bootstrap, "cut") as acked:
            wait_in_sync(cluster.bootstrap)
            acked.wait_after(time.monotonic(), 20)
            namespaces.isolate(node_id)
            healing_s = time.monotonic() + CUT_S
            while time.monotonic() < healing_s:
                time.sleep(0.1)
            namespaces.heal()
            healed_s = time.monotonic()
            acked_s = acked.wait_after(healed_s, ACKED_S_MAX)
            for node in cluster.nodes.values():
                wait_in_sync(node.address, IN_SYNC_S_MAX - (time.monotonic() - healed_s))
            in_sync_s = time.monotonic() - healed_s
            logger.info(
                "node %d cut off for %g s: acknowledged after %.1f s, in sync after %.1f s",
                node_id,
                CUT_S,
                acked_s,
                in_sync_s,
            )
    finally:
        cluster.kill()


def test_a_silent_cut_is_over_soon_after_its_end(tmp_path: Path, networks: list[Namespaces]) -> None:
    """Two clusters, with a cut of a follower and of the controller, run at once, since most of a cut is a wait."""
    with ThreadPoolExecutor(2) as threads:
        cuts = [
            threads.submit(cut_and_heal, tmp_path / str(node_id), namespaces, node_id)
            for node_id, namespaces in zip((FOLLOWER, CONTROLLER), networks, strict=True)
        ]
        for each in cuts:
            each.result()
