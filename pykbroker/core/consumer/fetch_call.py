"""A Fetch request to one broker, and the settings that all Fetch requests of a consumer share."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pykbroker.core.consumer.fetch_session import TOPIC_IDS_VERSION, FetchPart, NodeFetchSession, PartitionFetch
from pykbroker.core.topic_partition import TopicPartition
from wire.declare import NIL
from wire.messages.fetch import FetchRequest, FetchResponse
from wire.sentinels import CONSUMER_REPLICA_ID


class FetchSettings(msgspec.Struct, frozen=True):
    """The settings of fetching, with Kafka's defaults. Sizes are in bytes, times in ms."""

    min_bytes: int = 1
    max_wait_ms: int = 500
    bytes_max: int = 50 << 20
    partition_bytes_max: int = 1 << 20
    is_committed: bool = False
    """Whether `isolation.level` is read_committed."""
    checks_crc: bool = True
    rack: str = ""
    replica_ms_max: float = 300_000
    """The time after which a preferred read replica is forgotten: `metadata.max.age.ms`."""
    backoff_ms: float = 100
    """The time after an error of a partition before it is fetched again: `retry.backoff.ms`."""


class FetchCall:
    """A Fetch request to the broker `node`, with all partitions that its session is to have."""

    def __init__(
        self,
        node: int,
        session: NodeFetchSession,
        partitions: Mapping[TopicPartition, PartitionFetch],
        settings: FetchSettings,
    ) -> None:
        self.node, self.session, self.partitions = node, session, partitions
        self._settings, self._version = settings, 0

    @property
    def version_max(self) -> int | None:
        """Return the last version of Fetch that can be used while topic ids are unknown, or None for any version."""
        has_ids = all(asked.topic_id != NIL for asked in self.partitions.values())
        return None if has_ids else TOPIC_IDS_VERSION - 1

    def request(self, version: int) -> FetchRequest:
        """Return the request in this version. It is built once, since it changes the session."""
        settings, self._version = self._settings, version
        request = FetchRequest(
            replica_id=CONSUMER_REPLICA_ID,
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.bytes_max,
            isolation_level=int(settings.is_committed),
            rack_id=settings.rack,
        )
        self.session.fill(request, self.partitions, version)
        return request

    def parts(self, response: FetchResponse) -> list[FetchPart] | None:
        """Return the parts of the response, or None if it is an error or does not fit the session."""
        return self.session.received(response, self._version)
