"""The readiness of a broker, for load balancers and Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykbroker.broker import BrokerStatistics


def readiness(found: BrokerStatistics, *, is_stopping: bool) -> tuple[int, str]:
    """Return (HTTP status, explanation).

    The status is 200 if the broker serves clients and no partition is offline, and 503 otherwise.
    """
    failed = [directory.path for directory in found.directories if directory.failed]
    if is_stopping:
        return 503, "The broker is stopping.\n"
    if failed:
        return 503, f"Log directories have failed: {', '.join(failed)}. The log of the broker says why.\n"
    if found.replicas.offline:
        return 503, f"{found.replicas.offline} partitions are offline. The log of the broker says why.\n"
    return 200, "The broker serves clients, and no partition is offline.\n"
