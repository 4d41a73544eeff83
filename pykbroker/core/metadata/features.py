"""Feature levels: what this broker can work with, what it tells clients, and what a new cluster begins with."""

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
"""Least and highest level of each feature that this broker can work with."""

NOT_SERVED = ("share.version", "streams.version")
"""What a cluster may be at while this broker has no such groups: clients are not told that it has."""

TOLD: Mapping[str, tuple[int, int]] = {name: levels for name, levels in SUPPORTED.items() if name not in NOT_SERVED}
"""Least and highest level of each feature that clients may rely on."""

NEW_CLUSTER: Mapping[str, int] = {
    METADATA_FEATURE: 30,
    ELR_FEATURE: 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The levels of a cluster that Kafka 4.3 formats, in its order."""

OF_THE_LOG = (METADATA_FEATURE, KRAFT_FEATURE)
"""These say how the metadata log is to be read. Of any other feature a level above ours is kept, and not told."""


def check_levels(levels: Mapping[str, int]) -> None:
    """`StartError` where the metadata itself is at a level that this broker does not know."""
    for name in OF_THE_LOG:
        least, most = SUPPORTED[name]
        level = levels.get(name, least)
        if not least <= level <= most:
            raise StartError(
                f"the cluster's metadata is at {name} {level}, and this broker knows {least} to {most}: "
                "start it with the version that wrote it"
            )


def told(levels: Mapping[str, int]) -> dict[str, int]:
    """Of the cluster's levels those that clients may rely on."""
    return {name: level for name, level in levels.items() if name in TOLD and level <= TOLD[name][1]}


def beyond(levels: Mapping[str, int]) -> dict[str, int]:
    """The levels that this broker does not know: it goes on without what they stand for."""
    return {name: level for name, level in levels.items() if level > SUPPORTED.get(name, (0, 0))[1]}
