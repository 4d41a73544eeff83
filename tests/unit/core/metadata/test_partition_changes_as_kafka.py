"""The changes of partitions, compared with those that Kafka's controller makes."""

from __future__ import annotations

import json
import lzma
import random
from pathlib import Path
from typing import Any

from pykbroker.core.metadata.context import METADATA_FEATURE, ControllerContext
from pykbroker.core.metadata.draft import ImageDraft
from pykbroker.core.metadata.election import Rules
from pykbroker.core.metadata.image import BrokerImage, PartitionImage, TopicImage
from pykbroker.core.metadata.partition_change import ReplicaAssignment, change
from pykbroker.core.metadata.partition_index import PartitionIndex
from pykbroker.core.metadata.replay import merge
from pykbroker.core.metadata.sessions import BrokerSessions
from pykbroker.core.metadata.settings import ControllerSettings
from tests.unit.core.metadata.harness import CLUSTER, Configs
from wire.stored.metadata_topics import PartitionChangeRecord

DATA = Path(__file__).parents[3] / "data/partition_changes/cases.jsonl.xz"
"""The records of Apache Kafka 4.3.1, which `tools/partition_changes/record.py` recorded."""
BROKERS = (1, 2, 3, 4, 5)


def directory(broker_id: int) -> bytes:
    return bytes([broker_id]) * 16


def context_of(row: dict[str, Any]) -> ControllerContext:
    draft, settings = ImageDraft(), ControllerSettings(1, CLUSTER)
    draft.features.rows()[METADATA_FEATURE] = row["level"]
    for one in BROKERS:
        draft.put_broker(
            BrokerImage(
                id=one,
                incarnation_id=directory(one),
                epoch=one,
                fenced=one not in row["active"],
                directories=(directory(one),),
            )
        )
    sessions = BrokerSessions(1, settings.broker_session_timeout_ms)
    return ControllerContext(draft, 0, settings, Configs(), random.Random(0), PartitionIndex(), sessions, 0.0)


def partition_of(old: dict[str, Any]) -> PartitionImage:
    return PartitionImage(
        replicas=tuple(old["replicas"]),
        isr=tuple(old["isr"]),
        leader=old["leader"],
        leader_epoch=5,
        partition_epoch=9,
        directories=tuple(map(directory, old["replicas"])),
        elr=tuple(old["elr"]),
        last_known_elr=tuple(old["last_known_elr"]),
        adding=tuple(old["adding"]),
        removing=tuple(old["removing"]),
        recovering=old["recovering"],
    )


def decided(row: dict[str, Any]) -> PartitionChangeRecord | None:
    topic = TopicImage("a", bytes(16), {0: partition_of(row["partition"])})
    target = ReplicaAssignment(**{name: tuple(ids) for name, ids in row["target"].items()})
    rules = Rules(elr_enabled=row["elr"], min_isr=row["min_isr"], unclean=row["election"] == "UNCLEAN")
    return change(
        context_of(row),
        topic,
        0,
        target,
        rules,
        lost=row["lost"],
        prefer_first=row["election"] == "PREFERRED",
        recovered=row["recovered"],
    )


def outcome(row: dict[str, Any], record: PartitionChangeRecord | None) -> dict[str, Any]:
    """Return the partition after the change.

    The order of an ELR means nothing. Kafka keeps replicas in the ELR that a completed reassignment has removed, which
    are left out here.
    """
    old = partition_of(row["partition"])
    new = old if record is None else merge(old, record)
    replicas = set(new.replicas)
    return {
        "leader": (new.leader, new.leader_epoch),
        "isr": new.isr,
        "assignment": (new.replicas, new.adding, new.removing),
        "recovering": new.recovering,
        "eligible": (replicas & {*new.elr}, replicas & {*new.last_known_elr}),
    }


def test_changes_of_partitions_are_kafkas() -> None:
    rows = [json.loads(line) for line in lzma.decompress(DATA.read_bytes()).splitlines()]
    compared = 0
    for row in rows:
        ours = outcome(row, decided(row))
        theirs = outcome(row, None if row["record"] is None else PartitionChangeRecord(**row["record"]))
        if row["recovered"] and ours["recovering"]:
            continue  # an unclean election in the same change: Kafka does not mark it
        compared += 1
        assert ours == theirs, row
    assert compared > 0.99 * len(rows) >= 2_970
