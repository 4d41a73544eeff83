"""A double of the broker that the console observes, with known statistics."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

import trio
from prometheus_client.parser import text_string_to_metric_families

from pykbroker.broker import BrokerHealth, BrokerStatistics
from pykbroker.broker.decision_rates import AuthorizerStatistics
from pykbroker.broker.group_statistics import GroupsStatistics
from pykbroker.console.exposition import exposition
from pykbroker.core.fetch.session_cache import Statistics as SessionStatistics
from pykbroker.core.steps import Steps, finish
from pykbroker.quorum.statistics import ControllerDuty, ControllerStatistics
from pykbroker.replica.care.scrubber import ScrubStatistics
from pykbroker.replica.partition.topic_traffic import TopicTraffic
from pykbroker.replica.statistics import ReplicaStatistics
from pykbroker.replica.topic_statistics import TopicsStatistics
from pykbroker.server.authentications import Authentications
from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.metrics import RouteStatistics, ServerStatistics
from pykbroker.server.table import HISTOGRAM_BUCKETS
from pykbroker.storage.directory.statistics import DirectoryStatistics
from pykbroker.world.net import NetStatistics
from wire.api import ApiKey

T = TypeVar("T")


def histogram(**counts: int) -> tuple[int, ...]:
    return tuple(counts.get(f"at{bucket}", 0) for bucket in range(HISTOGRAM_BUCKETS))


FOUND = BrokerStatistics(
    node_id=3,
    address="b3.example:9092",
    server=ServerStatistics(
        requests=(
            RouteStatistics(ApiKey.PRODUCE, 11, 3, 1, 300, 30, 7_000_000, 4_000_000, 0, 0, histogram(at0=1, at3=2)),
            RouteStatistics(
                ApiKey.PRODUCE, 12, 2, 0, 200, 20, 0, 1_000_000, 5_000_000_000, 6_000_000, histogram(at4=1, at39=1)
            ),
            RouteStatistics(ApiKey.FETCH, 18, 0, 0, 0, 0, 0, 0, 0, 0, histogram()),
        ),
        requests_waiting=4,
        requests_held=1,
        connections_open={"PLAINTEXT": 7, "INTERNAL": 0},
        connections_unsent=3,
        unsent_ns=8_000_000,
        connections_age_ns=9_000_000_000,
        connections_age_ns_max=5_000_000_000,
        connections_accepted=9,
        connections_refused=2,
        connections_closed={next(iter(ConnectionEnding)): 2},
        accept_waits=5,
        authentications={
            "PLAINTEXT": Authentications(),
            "SASL": Authentications(21, 22, 23, 24, 25, 26, again_ns=36_000_000, again_ns_longest=2_500_000),
        },
        tls={("SASL", "TLSv1.3", "TLS_AES_256_GCM_SHA384"): 3, ("SSL", "TLSv1.2", "TLS_ECDHE_RSA_WITH_AES"): 2},
        held_bytes=1000,
        held_bytes_max=2000,
    ),
    fetch_sessions=SessionStatistics(1, 8, 2),
    net=NetStatistics(100, 1, 2_000_000_000, 30_000_000, 18_000_000_000, 0.25),
    directories=(
        DirectoryStatistics("/d/a", False, 3, 5, 900, 1000, 400, 2),
        DirectoryStatistics('/d/"b"', True, 0, 0, 0, 0, 0, 0),
    ),
    replicas=ReplicaStatistics(3, 2, 1, 11, 12, 13, 14, 15, 16, 17, 18),
    scrub=ScrubStatistics(2, 12_345, 1, 6),
    controller=ControllerStatistics(4, 77, 1, 2, 3, 0, 0, ControllerDuty(5, 6, 7)),
    authorizer=AuthorizerStatistics(7, 30.0, 1.5),
)

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str) -> Samples:
    """Parse metrics in Prometheus' text format; map each series to its value."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@dataclasses.dataclass
class Observed:
    """An observer that returns its own attributes as statistics."""

    found: BrokerStatistics = FOUND
    found_health: BrokerHealth = dataclasses.field(default_factory=lambda: BrokerHealth((), 0))
    found_topics: TopicsStatistics = dataclasses.field(default_factory=lambda: TopicsStatistics(TopicTraffic(), (), 0))
    found_groups: GroupsStatistics = dataclasses.field(default_factory=lambda: GroupsStatistics((), 0))
    asked_for_leaderless: bool | None = None

    async def statistics(self) -> BrokerStatistics:
        return self.found

    async def health(self) -> BrokerHealth:
        return self.found_health

    async def topics(self, *, with_leaderless: bool) -> TopicsStatistics:
        self.asked_for_leaderless = with_leaderless
        return self.found_topics

    async def groups(self) -> GroupsStatistics:
        return self.found_groups

    async def in_slices(self, steps: Steps[T]) -> T:
        await trio.lowlevel.checkpoint()
        return finish(steps)

    async def scrape(self) -> Samples:
        """Return the samples of one scrape."""
        return samples(b"".join(await exposition(self)).decode())
