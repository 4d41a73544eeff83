"""Three brokers whose network loses everything between some of them, without a reset, and then heals.

With PYKBROKER_TEST_CUT_S=60 each cut lasts for 60 s. By default it lasts for longer than the time after which a
connection without acknowledgements ends, so that TCP's retransmissions would be seconds apart when the network heals.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
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
pytestmark = pytest.mark.timeout(4 * CUT_S + 120)
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
def namespaces() -> Iterator[Namespaces]:
    """Yield a network namespace for each broker."""
    try:
        created = Namespaces(3)
    except NoNamespaces as reason:
        pytest.skip(str(reason))
    try:
        yield created
    finally:
        created.close()


def test_a_silent_cut_is_over_soon_after_its_end(tmp_path: Path, namespaces: Namespaces) -> None:
    cluster = OurCluster(tmp_path, 3, (*SETTINGS, *REPLICATED), namespaces)
    try:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUICK})
        admin.create_topics([NewTopic("cut", PARTITIONS, 3)])["cut"].result(20)
        with AckedTimes(cluster.bootstrap, "cut") as acked:
            for node_id in (FOLLOWER, CONTROLLER):
                wait_in_sync(cluster.bootstrap)
                acked.wait_after(time.monotonic(), 20)
                namespaces.isolate(node_id)
                time.sleep(CUT_S)
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
