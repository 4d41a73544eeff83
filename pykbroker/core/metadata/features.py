"""Feature levels: those that this broker supports, those that clients see, and those of a new cluster."""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.core.errors import StartError
from pykbroker.core.metadata.context import ELR_FEATURE, METADATA_FEATURE

KRAFT_FEATURE = "kraft.version"

SUPPORTED: Mapping[str, tuple[int, int]] = {
    METADATA_FEATURE: (7, 30),  # 3.3-IV3 to 4.3-IV0
    KRAFT_FEATURE: (0, 1),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
    ELR_FEATURE: (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}
"""The lowest and the highest level of each feature at which this broker can run."""

NOT_IMPLEMENTED = ("share.version", "streams.version")
"""Features that a cluster may have enabled although this broker does not implement them. Clients do not see them."""

ADVERTISED: Mapping[str, tuple[int, int]] = {
    name: levels for name, levels in SUPPORTED.items() if name not in NOT_IMPLEMENTED
}
"""The lowest and highest level of each feature that ApiVersions lists as supported."""

NEW_CLUSTER: Mapping[str, int] = {
    METADATA_FEATURE: 30,
    ELR_FEATURE: 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The levels of a new cluster, in the order in which Kafka 4.3 formats one."""

OF_THE_LOG = (METADATA_FEATURE, KRAFT_FEATURE)
"""Features that govern the format of the metadata log. A broker cannot run at a higher level than it supports.

A higher level of any other feature is kept, and clients do not see it.
"""


def check_levels(levels: Mapping[str, int]) -> None:
    """Raise StartError if this broker cannot read a metadata log of these levels."""
    for name in OF_THE_LOG:
        least, most = SUPPORTED[name]
        level = levels.get(name, least)
        if not least <= level <= most:
            raise StartError(
                f"the cluster's metadata is at {name} {level}, and this broker supports {least} to {most}: "
                "start it with the version that wrote it"
            )


def advertised(levels: Mapping[str, int]) -> dict[str, int]:
    """Return the finalized levels that ApiVersions lists."""
    return {name: level for name, level in levels.items() if name in ADVERTISED and level <= ADVERTISED[name][1]}


def unsupported(levels: Mapping[str, int]) -> dict[str, int]:
    """Return the levels above those that this broker supports. The broker lacks the behaviour that they enable."""
    return {name: level for name, level in levels.items() if level > SUPPORTED.get(name, (0, 0))[1]}
