"""Which metrics a client should push, and how often: the subscriptions that match it, together."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from fastcrc import crc32

from pykbroker.core.config.config import Texts, read
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.config.table import CLIENT_METRICS
from pykbroker.core.metadata.ids import id_text
from pykbroker.core.metadata.image import ConfigsImage

ALL = "*"
UNKNOWN = "unknown"
INTERVAL_MS_DEFAULT = 300_000

ClientProperties = Mapping[str, str]
"""What is known of a client, by the names that a match may have."""


class RequestedMetrics(msgspec.Struct, frozen=True, gc=False):
    """What one client is asked for; ALL alone stands for every metric."""

    id: int
    metrics: tuple[str, ...]
    interval_ms: int


class Subscription(msgspec.Struct, frozen=True):
    """One resource of client metrics."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: tuple[tuple[str, re.Pattern[str]], ...]

    @classmethod
    def of(cls, texts: Texts) -> Subscription:
        """From its configs, which were checked when they were set."""
        values = {name: row.default for name, row in CLIENT_METRICS.items()} | read(CLIENT_METRICS, texts)
        pairs = (str(pattern).rstrip("=").split("=") for pattern in values["match"])  # type: ignore[union-attr]
        patterns = tuple((what.strip(), re.compile(expression.strip())) for what, expression in pairs)
        return cls(tuple(values["metrics"]), int(values["interval.ms"]), patterns)  # type: ignore[arg-type]

    def matches(self, client: ClientProperties) -> bool:
        """Each of its patterns matches the whole of what it is about."""
        return all(pattern.fullmatch(client[what]) for what, pattern in self.patterns)


def subscriptions(configs: ConfigsImage) -> tuple[Subscription, ...]:
    """All there are."""
    return tuple(
        Subscription.of(texts)
        for (kind, _), texts in configs.resources.items()
        if kind == ConfigResource.CLIENT_METRICS
    )


def wanted(client_instance_id: bytes, client: ClientProperties, existing: tuple[Subscription, ...]) -> RequestedMetrics:
    """What this client is asked for: all metrics of those that match it, at the shortest of their intervals."""
    matching = [one for one in existing if one.matches(client)]
    metrics = tuple(dict.fromkeys(metric for one in matching for metric in one.metrics))
    metrics = (ALL,) if ALL in metrics else metrics
    interval_ms = min((one.interval_ms for one in matching), default=INTERVAL_MS_DEFAULT)
    checksum = crc32.iscsi(f"{metrics} {interval_ms}".encode() + client_instance_id)
    return RequestedMetrics(checksum - (checksum >> 31 << 32), metrics, interval_ms)


def properties(instance_id: bytes, client_id: str | None, host: str, port: int) -> ClientProperties:
    """What a subscription can match of a client. What software it runs is not known to who answers it."""
    return {
        "client_id": client_id or "",
        "client_instance_id": id_text(instance_id),
        "client_software_name": UNKNOWN,
        "client_software_version": UNKNOWN,
        "client_source_address": host,
        "client_source_port": str(port),
    }
