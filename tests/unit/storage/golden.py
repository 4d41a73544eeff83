"""Log directories that Apache Kafka 4.3.1 wrote, unpacked."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from pykbroker.storage.segments.config import LogConfig

DATA = Path(__file__).parents[2] / "data" / "golden"
KINDS = {"clean": "clean", "unclean": "unclean", "snapshotted": "kraft-snapshot-and-dynamic"}


def unpack(kind: str, to: Path) -> Path:
    """The directory `kind`, below `to`."""
    with tarfile.open(DATA / f"logdir-{KINDS[kind]}.tar.xz") as archive:
        archive.extractall(to, filter="data")
    return to / kind


def expected(kind: str, of: str = "topics") -> dict[str, Any]:
    """What Kafka served from it: of topics by name, partition and isolation level; or of groups, or transactions."""
    found: dict[str, Any] = json.loads((DATA / f"{kind}-expected.json").read_text())[of]
    return found


def config_of(topic: str) -> LogConfig:
    """What storage must know of a topic's configs: which one was compacted."""
    return LogConfig(cleanup_policy=("compact",)) if topic == "compacted" else LogConfig()
