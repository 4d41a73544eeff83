"""Requests to the group coordinator: protocol messages with their sender, and the broker's own requests."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from wire.messages.offset_fetch import OffsetFetchRequestGroup

Shows = Callable[[Collection[str]], Collection[str]]
"""A function that returns those of the topics that a client may describe."""


class ClientRequest(msgspec.Struct, frozen=True):
    """A request from a client. `client_host` starts with a slash, as in Kafka's records.

    `shows` is None for a client that may describe all topics.
    """

    message: Any
    version: int
    client_id: str = ""
    client_host: str = ""
    shows: Shows | None = None


class FetchOffsets(msgspec.Struct, frozen=True):
    """One group of an OffsetFetch request, with topics by name. The reply is an OffsetFetchResponseGroup."""

    group: OffsetFetchRequestGroup
    require_stable: bool


class ForgetTopics(msgspec.Struct, frozen=True):
    """The notice that topics were deleted. It has no reply; the committed offsets of the topics are then deleted."""

    topics: frozenset[str]
