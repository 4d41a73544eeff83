"""The first records of a cluster: its feature levels, and the configs that these require."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykbroker.core.metadata.context import ELR_FEATURE
from pykbroker.core.metadata.image import CLUSTER_DEFAULT
from pykbroker.core.metadata.record import Record
from wire.stored.metadata_marks import BeginTransactionRecord, EndTransactionRecord
from wire.stored.metadata_settings import ConfigRecord, FeatureLevelRecord

TRANSACTION = "Bootstrap records"


def feature_records(levels: Mapping[str, int]) -> list[FeatureLevelRecord]:
    """Return the records that a newly formatted directory has in `bootstrap.checkpoint`."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]


def bootstrap_records(formatted: Iterable[Record], min_insync_replicas: int) -> list[Record]:
    """Return the records with which the first controller begins: the formatted records, as one transaction.

    With eligible leader replicas, min.insync.replicas must be equal on all brokers, because it decides which replicas
    are eligible. A record therefore sets it cluster-wide.
    """
    records = list(formatted)
    if any(
        isinstance(record, FeatureLevelRecord) and record.name == ELR_FEATURE and record.feature_level
        for record in records
    ):
        resource_type, resource_name = CLUSTER_DEFAULT
        records.append(
            ConfigRecord(
                resource_type=resource_type,
                resource_name=resource_name,
                name="min.insync.replicas",
                value=str(min_insync_replicas),
            )
        )
    return [BeginTransactionRecord(name=TRANSACTION), *records, EndTransactionRecord()]
