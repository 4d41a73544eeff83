"""The groups of metrics that `metrics()` of kafka-python's clients returns."""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.client.nodes import NODE_ID_MAX, coordinator_connection_id

Metrics = dict[str, dict[str, float]]


def grouped(prefix: str, own: Mapping[str, Mapping[str, float]], in_flight: Mapping[int, int]) -> Metrics:
    """Return a client's own groups, those of its connections, and the group with the number of all metrics.

    `in_flight` has the requests in flight on each open connection, by node id.
    """
    common = {"connection-count": len(in_flight), "requests-in-flight": sum(in_flight.values())}
    groups: Metrics = {name: dict(group) for name, group in own.items()}
    groups.setdefault(f"{prefix}-metrics", {}).update(common)
    for node_id, count in in_flight.items():
        groups[f"{prefix}-node-metrics.{node_name(node_id)}"] = {"requests-in-flight": count}
    return groups | {"kafka-metrics-count": {"count": 1 + sum(map(len, groups.values()))}}


def node_name(node_id: int) -> str:
    """Return the name of a connection in kafka-python's metrics, such as `node-1` or `node-coordinator-1`."""
    if node_id < 0:
        return f"node-bootstrap-{-1 - node_id}"
    is_coordinator = node_id > NODE_ID_MAX // 2
    return f"node-coordinator-{coordinator_connection_id(node_id)}" if is_coordinator else f"node-{node_id}"
