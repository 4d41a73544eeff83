"""All rows in the order in which they are measured. Rows that disturb a warm broker most are last."""

from __future__ import annotations

from tools.bench.rows import (
    cleaner,
    cluster,
    cluster_idle,
    end_to_end,
    failover,
    flush,
    groups,
    idle,
    idle_partitions,
    loading,
    many_partitions,
    members,
    moves,
    recovery,
    refill,
    requests,
    security,
    spark,
    spark_archive,
    spark_replay,
    spark_source,
    start,
    steps,
    topics,
    volume,
)

ROWS = (
    *start.ROWS,
    *recovery.ROWS,
    *idle.ROWS,
    *volume.ROWS,
    *requests.ROWS,
    *flush.ROWS,
    *cleaner.ROWS,
    *moves.ROWS,
    *groups.ROWS,
    *members.ROWS,
    *loading.ROWS,
    *end_to_end.ROWS,
    *idle.CONNECTION_ROWS,
    *spark.ROWS,
    *spark_source.ROWS,
    *spark_replay.ROWS,
    *spark_archive.ROWS,
    *topics.ROWS,
    *steps.ROWS,
    *many_partitions.ROWS,
)

SECURITY_ROWS = security.ROWS
"""The rows that are measured on brokers with a listener of each security protocol."""

CLUSTER_ROWS = (*cluster_idle.ROWS, *idle_partitions.ROWS, *cluster.ROWS, *refill.ROWS, *failover.ROWS)
"""The rows that are measured on clusters of three nodes."""
