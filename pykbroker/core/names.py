"""Which names a topic may have, and which topics are Kafka's own.

A name becomes a directory and, with '.' turned into '_', a metric: hence the characters, the length and the collisions.
"""

from __future__ import annotations

import re

from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode

NAME_LENGTH_MAX = 249  # 255 for a file name, less "-" and the partition's digits

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"

INTERNAL_TOPICS = frozenset((GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC))
"""Listed as internal in Metadata. The metadata log is no topic that a client ever sees."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(name: str) -> bool:
    """Whether the brokers own this topic."""
    return name in INTERNAL_TOPICS


def check_topic_name(name: str) -> None:
    """`ApiError` INVALID_TOPIC_EXCEPTION, in Kafka's words, for a name that no topic may have."""
    if (fault := _fault(name)) is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")


def collision_key(name: str) -> str | None:
    """Equal for two names whose metrics would be the same; None for a name that can collide with none."""
    return name.replace(".", "_") if "." in name or "_" in name else None


def _fault(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
