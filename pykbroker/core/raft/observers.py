"""The observers of the metadata log, as its leader knows them from their fetches (KIP-836)."""

from __future__ import annotations

import msgspec

FORGOTTEN_MS = 300_000
"""The time without a fetch after which an observer is forgotten, as in Kafka."""


class ObserverState(msgspec.Struct):
    """An observer. Times are in ms since 1970; `caught_up_ms` is -1 if the observer never had all records."""

    replica_id: int
    directory_id: bytes
    log_end_offset: int = -1
    fetched_ms: int = -1
    caught_up_ms: int = -1
    leader_end_offset: int = -1
    """The leader's log end offset at the last fetch."""


class Observers:
    """All nodes that fetched within the last `FORGOTTEN_MS`."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[int, bytes], ObserverState] = {}

    def fetched(
        self, replica_id: int, directory_id: bytes, fetch_offset: int, leader_end_offset: int, now_ms: int
    ) -> None:
        """Note a fetch. The observer has all records below `fetch_offset`."""
        key = replica_id, directory_id
        observer = self._by_key.pop(key, None) or ObserverState(*key)
        if fetch_offset >= leader_end_offset:
            observer.caught_up_ms = max(observer.caught_up_ms, now_ms)
        elif fetch_offset >= observer.leader_end_offset >= 0:
            observer.caught_up_ms = max(observer.caught_up_ms, observer.fetched_ms)
        observer.fetched_ms, observer.log_end_offset = now_ms, fetch_offset
        observer.leader_end_offset = leader_end_offset
        self._by_key[key] = observer

    def current(self, now_ms: int) -> list[ObserverState]:
        """Return the observers by id, without those that fetched too long ago."""
        for key, observer in list(self._by_key.items()):
            if now_ms - observer.fetched_ms > FORGOTTEN_MS:
                del self._by_key[key]
        return sorted(self._by_key.values(), key=lambda one: (one.replica_id, one.directory_id))
