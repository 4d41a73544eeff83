"""The settings of the fetchers of one broker."""

from __future__ import annotations

import msgspec

from pykbroker.core.config.config import BrokerConfig


class ReplicaFetchSettings(msgspec.Struct, frozen=True):
    """The replica.fetch configs. Sizes are in bytes, times in ms. `slots` is the number of fetchers for each leader."""

    wait_ms_max: int = 500
    bytes_min: int = 1
    partition_bytes_max: int = 1 << 20
    response_bytes_max: int = 10 << 20
    backoff_ms: int = 1000
    slots: int = 1

    @classmethod
    def of(cls, config: BrokerConfig) -> ReplicaFetchSettings:
        return cls(
            config.replica_fetch_wait_max_ms,
            config.replica_fetch_min_bytes,
            config.replica_fetch_max_bytes,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_backoff_ms,
            config.num_replica_fetchers,
        )

    def had_room(self, records_bytes: int) -> bool:
        """Whether a response with this many bytes of records had room for those of another partition.

        A partition without records may otherwise be one whose records found no room.
        """
        return not records_bytes or records_bytes + self.partition_bytes_max <= self.response_bytes_max
