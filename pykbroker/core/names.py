"""The valid names of topics, and the names of internal topics.

A topic's name is part of a directory name and, with '.' replaced by '_', of metric names. This limits its characters
and length, and makes some names collide.
"""

from __future__ import annotations

import re

from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode

NAME_LENGTH_MAX = 249  # a file name has at most 255: the topic, "-", and the partition

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"

INTERNAL_TOPICS = frozenset((GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC))
"""Topics that Metadata marks as internal.

The metadata log is not among them, because clients never see it as a topic.
"""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(name: str) -> bool:
    """Whether the topic is an internal topic of the brokers."""
    return name in INTERNAL_TOPICS


def check_topic_name(name: str) -> None:
    """Raise ApiError INVALID_TOPIC_EXCEPTION, in Kafka's wording, for a name that no topic may have."""
    if (fault := _fault(name)) is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")


def collision_key(name: str) -> str | None:
    """Return a key that is equal for names with equal metric names, or None if the name cannot collide."""
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
