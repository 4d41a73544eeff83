"""The groups of metrics, with kafka-python's names."""

from __future__ import annotations

from pykbroker.client.nodes import coordinator_connection_id
from pykbroker.kafka.metrics import grouped


def test_connections_have_a_group_each_and_are_counted() -> None:
    in_flight = {-1: 0, 3: 2, coordinator_connection_id(3): 1}
    assert grouped("consumer", {"consumer-coordinator-metrics": {"assigned-partitions": 4}}, in_flight) == {
        "consumer-coordinator-metrics": {"assigned-partitions": 4},
        "consumer-metrics": {"connection-count": 3, "requests-in-flight": 3},
        "consumer-node-metrics.node-bootstrap-0": {"requests-in-flight": 0},
        "consumer-node-metrics.node-3": {"requests-in-flight": 2},
        "consumer-node-metrics.node-coordinator-3": {"requests-in-flight": 1},
        "kafka-metrics-count": {"count": 7},
    }


def test_the_metrics_of_connections_join_those_of_the_client() -> None:
    found = grouped("producer", {"producer-metrics": {"record-send-total": 5}}, {})
    assert found["producer-metrics"] == {"record-send-total": 5, "connection-count": 0, "requests-in-flight": 0}
