"""The text of a scrape: all metrics in Prometheus' text format. It is created in time slices of the event loop."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from pykbroker.console.metrics import broker_metrics
from pykbroker.console.observer import Observer
from pykbroker.console.replication import replication_families
from pykbroker.console.resources import process_text, resource_families
from pykbroker.console.security import security_families
from pykbroker.console.text import Family, family_text, gauge, labels, portions
from pykbroker.console.topics import group_families, topic_families
from pykbroker.core.version import VERSION
from pykbroker.world.system_off_loop import SystemOffLoop

if TYPE_CHECKING:
    from pykbroker.broker import BrokerStatistics


async def exposition(observer: Observer) -> list[bytes]:
    """Return all metrics of the broker, its topics, its groups and its process, in Prometheus' text format.

    The text comes in portions.
    """
    found = await observer.statistics()
    duty = found.controller.duty
    topics = await observer.topics(with_leaderless=duty is not None and duty.offline_partitions > 0)
    process = await SystemOffLoop()(process_text)
    families = chain(
        broker_metrics(found),
        broker_families(found),
        resource_families(found),
        security_families(found),
        replication_families(found.replicas, found.controller),
        topic_families(topics),
        group_families(await observer.groups()),
    )
    return await observer.in_slices(portions(chain([process], chain.from_iterable(map(family_text, families)))))


def broker_families(found: BrokerStatistics) -> Iterator[Family]:
    """Yield the metrics with the software versions, with the address of this broker, and with the number of brokers."""
    yield Family(
        "pykbroker_build_info",
        "gauge",
        "The constant 1, with the versions of pykbroker and Python",
        [(labels(version=VERSION, python=platform.python_version()), 1)],
    )
    yield Family(
        "kafka_exporter_build_info",
        "gauge",
        "The constant 1, with the version of pykbroker, for dashboards that look for kafka_exporter",
        [(labels(version=VERSION), 1)],
    )
    alive = found.controller.brokers - found.controller.fenced_brokers
    yield gauge("kafka_brokers", "Brokers that are registered and not fenced", alive)
    yield Family(
        "kafka_broker_info",
        "gauge",
        "The constant 1, with the id and the address of this broker",
        [(labels(id=found.node_id, address=found.address), 1)],
    )
