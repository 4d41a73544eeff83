"""The text of a scrape: all metrics in Prometheus' text format. It is created in time slices of the event loop."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from itertools import chain

from prometheus_client import CollectorRegistry, ProcessCollector

from pykbroker.console.metrics import broker_metrics
from pykbroker.console.observer import Observer
from pykbroker.console.replication import replication_families
from pykbroker.console.text import Family, family_text, labels, metric_text, portions
from pykbroker.console.topics import group_families, topic_families
from pykbroker.core.version import VERSION


async def exposition(observer: Observer) -> list[bytes]:
    """Return all metrics of the broker, its topics, its groups and its process, in Prometheus' text format.

    The text comes in portions.
    """
    found = await observer.statistics()
    process = ProcessCollector(registry=CollectorRegistry(auto_describe=False)).collect()
    metrics = chain(broker_metrics(found), process)
    families = chain(
        broker_families(found.controller.brokers),
        replication_families(found.replicas, found.controller),
        topic_families(await observer.topics()),
        group_families(await observer.groups()),
    )
    return await observer.in_slices(
        portions(chain(map(metric_text, metrics), chain.from_iterable(map(family_text, families))))
    )


def broker_families(brokers: int) -> Iterator[Family]:
    """Yield the metrics with the software versions and with the number of brokers."""
    yield Family(
        "pykbroker_build_info",
        "gauge",
        "The constant 1, with the versions of pykbroker and Python",
        [(labels(version=VERSION, python=platform.python_version()), 1)],
    )
    yield Family("kafka_brokers", "gauge", "Brokers in the cluster", [("", brokers)])
