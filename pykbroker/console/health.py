"""The readiness of a broker, for load balancers and Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykbroker.broker import BrokerHealth


def readiness(found: BrokerHealth, *, is_stopping: bool) -> tuple[int, str]:
    """Return (HTTP status, explanation).

    The status is 200 if the broker serves clients and no partition is offline, and 503 otherwise.
    """
    if is_stopping:
        return 503, "The broker is stopping.\n"
    if found.failed_directories:
        return 503, f"Log directories have failed: {', '.join(found.failed_directories)}. The broker's log says why.\n"
    if found.offline_partitions:
        return 503, f"{found.offline_partitions} partitions are offline. The broker's log says why.\n"
    return 200, "The broker serves clients, and no partition is offline.\n"
