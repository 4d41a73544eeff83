"""Log directories written by Apache Kafka 4.3.1, stored as archives."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from pykbroker.storage.segments.config import LogConfig

DATA = Path(__file__).parents[2] / "data" / "golden"
KINDS = {"clean": "clean", "unclean": "unclean", "snapshotted": "kraft-snapshot-and-dynamic"}


def unpack(kind: str, to: Path) -> Path:
    """Extract the log directory `kind` into `to`."""
    with tarfile.open(DATA / f"logdir-{KINDS[kind]}.tar.xz") as archive:
        archive.extractall(to, filter="data")
    return to / kind


def expected(kind: str, of: str = "topics") -> dict[str, Any]:
    """Return Kafka's recorded responses for this directory: the records of a topic, or its groups or transactions."""
    found: dict[str, Any] = json.loads((DATA / f"{kind}-expected.json").read_text())[of]
    return found


def config_of(topic: str) -> LogConfig:
    """Return the topic configs that the storage needs."""
    return LogConfig(cleanup_policy=("compact",)) if topic == "compacted" else LogConfig()
