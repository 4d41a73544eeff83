"""What a machine is asked: a message of the protocol with what is known of its sender, or something of the broker's."""

from __future__ import annotations

from typing import Any

import msgspec

from wire.messages.offset_fetch import OffsetFetchRequestGroup


class Asked(msgspec.Struct, frozen=True):
    """A request from the network. `client_host` begins with a slash, as in Kafka's records."""

    message: Any
    version: int
    client_id: str = ""
    client_host: str = ""


class FetchOffsets(msgspec.Struct, frozen=True):
    """One group of an OffsetFetch, its topics by name; answered with an OffsetFetchResponseGroup."""

    group: OffsetFetchRequestGroup
    require_stable: bool


class ForgetTopics(msgspec.Struct, frozen=True):
    """These topics are gone: what was committed for them goes, too. Not answered."""

    topics: frozenset[str]
