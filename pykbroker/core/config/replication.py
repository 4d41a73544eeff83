"""The configs of a cluster whose topics have a number of replicas."""

from __future__ import annotations

REPLICAS_DEFAULT = 3
"""The replication factor of a cluster that is started for one machine, unless it has fewer brokers."""
MIN_ISR_REPLICAS = 3
"""The number of replicas from which min.insync.replicas is 2."""


def replication_configs(replicas: int) -> dict[str, str]:
    """Return the broker configs that give all topics, also the internal ones, so many replicas.

    From 3 replicas on, records that are acknowledged with acks=all survive the death of any one broker.
    """
    factor, min_isr = str(replicas), "2" if replicas >= MIN_ISR_REPLICAS else "1"
    return {
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": min_isr,
        "min.insync.replicas": min_isr,
    }
