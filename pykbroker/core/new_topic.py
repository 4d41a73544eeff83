"""The settings of a new topic, which the command line, the test fixture or a start creates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from wire.sentinels import BROKER_DEFAULT

PARTITIONS_MAX, REPLICAS_MAX = 2**31 - 1, 2**15 - 1
"""The largest numbers of partitions and replicas that a CreateTopics request can carry."""


class NewTopic(NamedTuple):
    """A topic's name, its number of partitions, and the configs that are set for it.

    `source` is the option or the variable that names the topic, if one does.
    """

    name: str
    partitions: int = BROKER_DEFAULT
    configs: Mapping[str, str] = {}
    replicas: int = BROKER_DEFAULT
    source: str = ""
