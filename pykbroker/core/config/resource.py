"""The types of resources that have configs. The numbers are those of the protocol and of ConfigRecord."""

from __future__ import annotations

from enum import IntEnum


class ConfigResource(IntEnum):
    """The type of a resource: topic, broker (named by its id), broker logger, client metrics subscription, or group."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
