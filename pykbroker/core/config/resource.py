"""Types of resources that have configs; the numbers are those of the protocol and of ConfigRecord."""

from __future__ import annotations

from enum import IntEnum


class ConfigResource(IntEnum):
    """A topic, a broker (named by its id), the loggers of a broker, a client metrics subscription, or a group."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
