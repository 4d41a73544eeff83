"""The metrics that a client should push and their interval: the union of the subscriptions that match it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from fastcrc import crc32

from pykbroker.core.config.config import Texts, read
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.config.table import CLIENT_METRICS
from pykbroker.core.ids import id_text
from pykbroker.core.metadata.image import ConfigsImage

ALL = "*"
UNKNOWN = "unknown"
INTERVAL_MS_DEFAULT = 300_000
"""The interval of a client that matches no subscription: the default of the config `interval.ms`."""

ClientProperties = Mapping[str, str]
"""A client's properties, by the names that a subscription's `match` uses."""


class RequestedMetrics(msgspec.Struct, frozen=True, gc=False):
    """The metrics that one client should push. ALL alone means every metric."""

    id: int
    metrics: tuple[str, ...]
    interval_ms: int


class Subscription(msgspec.Struct, frozen=True):
    """One config resource of type CLIENT_METRICS."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: tuple[tuple[str, re.Pattern[str]], ...]

    @classmethod
    def of(cls, texts: Texts) -> Subscription:
        """Build a subscription from its configs, which were validated when they were set."""
        values = {name: row.default for name, row in CLIENT_METRICS.items()} | read(CLIENT_METRICS, texts)
        pairs = (str(pattern).rstrip("=").split("=") for pattern in values["match"])  # type: ignore[union-attr]
        patterns = tuple((what.strip(), re.compile(expression.strip())) for what, expression in pairs)
        return cls(tuple(values["metrics"]), int(values["interval.ms"]), patterns)  # type: ignore[arg-type]

    def matches(self, client: ClientProperties) -> bool:
        """Whether every pattern matches the whole value of its client property."""
        return all(pattern.fullmatch(client[what]) for what, pattern in self.patterns)


def subscriptions(configs: ConfigsImage) -> tuple[Subscription, ...]:
    """Return all subscriptions among the configs."""
    return tuple(
        Subscription.of(texts)
        for (kind, _), texts in configs.resources.items()
        if kind == ConfigResource.CLIENT_METRICS
    )


def requested_metrics(
    client_instance_id: bytes, client: ClientProperties, existing: tuple[Subscription, ...]
) -> RequestedMetrics:
    """Return the metrics of all subscriptions that match the client. The shortest of their intervals applies."""
    matching = [one for one in existing if one.matches(client)]
    metrics = tuple(dict.fromkeys(metric for one in matching for metric in one.metrics))
    metrics = (ALL,) if ALL in metrics else metrics
    interval_ms = min((one.interval_ms for one in matching), default=INTERVAL_MS_DEFAULT)
    checksum = crc32.iscsi(f"{metrics} {interval_ms}".encode() + client_instance_id)
    # A subscription id is signed, and the checksum is not.
    return RequestedMetrics(checksum - (checksum >> 31 << 32), metrics, interval_ms)


def properties(instance_id: bytes, client_id: str | None, host: str, port: int) -> ClientProperties:
    """Return the client properties that a subscription can match. The broker does not know the client's software."""
    return {
        "client_id": client_id or "",
        "client_instance_id": id_text(instance_id),
        "client_software_name": UNKNOWN,
        "client_software_version": UNKNOWN,
        "client_source_address": host,
        "client_source_port": str(port),
    }
