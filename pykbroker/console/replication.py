"""The metrics of replication and of the controller, with the names that they have in Kafka's JMX exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pykbroker.console.text import Family, gauge, labels

if TYPE_CHECKING:
    from pykbroker.quorum.statistics import ControllerStatistics
    from pykbroker.replica.statistics import ReplicaStatistics

REPLICAS: tuple[tuple[str, str, str, Callable[[ReplicaStatistics], int]], ...] = (
    ("partitioncount", "gauge", "Partitions with a replica on this broker", lambda found: found.partitions),
    ("leadercount", "gauge", "Partitions that this broker leads", lambda found: found.leaders),
    (
        "underreplicatedpartitions",
        "gauge",
        "Partitions that this broker leads and whose ISR lacks a replica",
        lambda found: found.under_replicated,
    ),
    (
        "underminisrpartitioncount",
        "gauge",
        "Partitions that this broker leads and whose ISR is smaller than min.insync.replicas, so that they refuse"
        " acks=all",
        lambda found: found.under_min_isr,
    ),
    (
        "atminisrpartitioncount",
        "gauge",
        "Partitions that this broker leads and whose ISR has exactly min.insync.replicas",
        lambda found: found.at_min_isr,
    ),
    (
        "offlinereplicacount",
        "gauge",
        "Replicas of this broker that are offline, for example on a failed log directory",
        lambda found: found.offline,
    ),
    (
        "reassigningpartitions",
        "gauge",
        "Partitions that this broker leads and that a reassignment moves",
        lambda found: found.reassigning,
    ),
    (
        "isrshrinks_total",
        "counter",
        "Changes by which this broker, as leader, removed followers from an ISR",
        lambda found: found.isr_shrinks,
    ),
    (
        "isrexpands_total",
        "counter",
        "Changes by which this broker, as leader, added a follower to an ISR",
        lambda found: found.isr_expansions,
    ),
    (
        "failedisrupdates_total",
        "counter",
        "Changes of an ISR that the controller refused to this broker",
        lambda found: found.isr_refusals,
    ),
)
"""The name, kind, HELP text and value of each metric of Kafka's `ReplicaManager`."""

DUTIES: tuple[tuple[str, str, Callable[[ControllerStatistics], int]], ...] = (
    (
        "activebrokercount",
        "Brokers that are registered and not fenced",
        lambda found: found.brokers - found.fenced_brokers,
    ),
    ("fencedbrokercount", "Brokers that are registered and fenced", lambda found: found.fenced_brokers),
    ("globaltopiccount", "Topics in the cluster", lambda found: found.topics),
    ("globalpartitioncount", "Partitions in the cluster", lambda found: found.partitions),
    (
        "offlinepartitionscount",
        "Partitions without a leader",
        lambda found: 0 if found.duty is None else found.duty.offline_partitions,
    ),
    (
        "preferredreplicaimbalancecount",
        "Partitions whose leader is not the preferred replica",
        lambda found: 0 if found.duty is None else found.duty.unbalanced_partitions,
    ),
)
"""The name, HELP text and value of each metric that Kafka's `KafkaController` has on the active controller."""


METADATA: tuple[tuple[str, str, Callable[[ControllerStatistics], int]], ...] = (
    ("kafka_server_raftmetrics_current_epoch", "Leader epoch of the metadata log", lambda found: found.epoch),
    (
        "kafka_server_brokermetadatametrics_last_applied_record_offset",
        "Offset of the last applied record of the metadata log",
        lambda found: found.offset,
    ),
)
"""The name, HELP text and value of the metrics that every node has of the metadata log."""


def replication_families(replicas: ReplicaStatistics, controller: ControllerStatistics) -> Iterator[Family]:
    """Yield the metrics of replication and of the metadata log, and on the active controller those of the cluster."""
    for name, kind, documentation, value in REPLICAS:
        yield Family(f"kafka_server_replicamanager_{name}", kind, documentation, [("", value(replicas))])
    yield Family(
        "kafka_server_replicafetchermanager_maxlag",
        "gauge",
        "The largest number of offsets that a followed partition is behind its leader's high watermark",
        [(labels(clientId="Replica"), replicas.max_lag)],
    )
    for name, documentation, value_of in METADATA:
        yield gauge(name, documentation, value_of(controller))
    yield Family(
        "kafka_server_raftmetrics_current_state",
        "gauge",
        "The constant 1, with the role of this node for the metadata log: leader or observer",
        [(labels(current_state="observer" if controller.duty is None else "leader"), 1)],
    )
    yield gauge(
        "kafka_controller_kafkacontroller_activecontrollercount",
        "1 on the active controller, 0 on other nodes",
        int(controller.duty is not None),
    )
    if controller.duty is not None:
        for name, documentation, count in DUTIES:
            yield gauge(f"kafka_controller_kafkacontroller_{name}", documentation, count(controller))
        yield Family(
            "kafka_controller_controllerstats_uncleanleaderelections_total",
            "counter",
            "Leaders elected since the controller's start outside of the ISR and the eligible leader replicas, so that"
            " records may be lost",
            [("", controller.duty.unclean_elections)],
        )
