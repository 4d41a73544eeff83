"""The cache of a broker's fetch sessions: its limits, and the choice of the session to evict (KIP-227).

1. A session that was unused for two minutes is evicted for any new one, the longest unused first.
2. Otherwise the lowest evictable session is evicted if it ranks below the new one. A consumer's session ranks below a
   follower's, and a session with fewer partitions ranks below one with more.
3. A follower may evict every consumer's session; any client may evict a session that is older than two minutes.
4. If no session can be evicted, the new client is served without a session.
5. A consumer that would exceed the limit of consumers' partitions is served without a session, unless it does not
   exceed it once the sessions that were unused for two minutes are evicted. Followers have no limit of partitions.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.epochs import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from pykbroker.core.fetch.session import (
    FetchedPartition,
    Fetching,
    FetchSession,
    remember,
    requested_partitions,
    respond,
)
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchRequest, FetchResponse

EVICTION_MS_MIN = 120_000
SESSION_ID_MAX = 2**31 - 1
PARTITIONS_MAX = 100_000
"""The number of partitions of all consumers' sessions, which take about 40 MB. Kafka has no such limit."""

Rank = tuple[bool, int, int]
"""The eviction rank of a session: privileged, number of partitions, id. The lowest rank is evicted first."""


class RandomNumbers(Protocol):
    """A source of random numbers for session ids, such as `random.Random`."""

    def randrange(self, start: int, stop: int) -> int:
        """Return a random number from `start` to `stop` - 1."""


class Statistics(NamedTuple):
    """A snapshot of the cache. `evictions` is counted since the broker started."""

    sessions: int
    partitions: int
    evictions: int


class FetchSessionCache:
    """A cache of at most `slots` sessions (max.incremental.fetch.session.cache.slots). Times are in ms, monotonic."""

    def __init__(self, slots: int, rng: RandomNumbers) -> None:
        self._slots, self._rng = slots, rng
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # least recently used first
        self._evictable: list[Rank] = []  # ranks of settled sessions, ascending
        self._evictable_by_privileged: list[Rank] = []  # ranks of settled and of unprivileged sessions
        self._evictions = self._partitions = self._partitions_of_consumers = 0

    def begin(self, request: FetchRequest, *, by_id: bool, privileged: bool, now_ms: int) -> Fetching:
        """Return the partitions of a request. Raise ApiError if its session or session epoch is unknown."""
        epoch = request.session_epoch
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id and (closed := self._sessions.get(request.session_id)) is not None:
                self._remove(closed)
            return Fetching(requested_partitions(request, by_id=by_id), by_id, privileged, epoch == INITIAL_EPOCH)
        session = self._session(request, by_id)
        if request.topics or request.forgotten_topics_data:
            session.update(request)
            self._check_room(session, now_ms)
        if not session.partitions:
            self._remove(session)
            return Fetching(requested_partitions(request, by_id=by_id), by_id)
        self._touch(session, now_ms)
        return Fetching(session.partitions, by_id, privileged, False, session, session.advance())

    def open(self, fetching: Fetching, found: list[FetchedPartition], now_ms: int) -> FetchResponse:
        """Return the response to an opening request, with the id of the new session if there was room for one."""
        return respond(self._open(fetching, found, now_ms), found)

    def remove(self, session: FetchSession) -> None:
        """Remove a session that its client no longer uses."""
        if not session.is_removed:
            self._remove(session)

    def statistics(self) -> Statistics:
        return Statistics(len(self._sessions), self._partitions, self._evictions)

    def _session(self, request: FetchRequest, by_id: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id is not by_id:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return session

    def _check_room(self, session: FetchSession, now_ms: int) -> None:
        """Remove a session if it exceeds the limit of partitions, and raise ApiError FETCH_SESSION_ID_NOT_FOUND."""
        more = len(session.partitions) - session.size
        if more > 0 and not session.privileged:
            session.used_ms = now_ms
            self._sessions.move_to_end(session.id)
            if not self._has_room(more, now_ms):
                self._remove(session)
                raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def _has_room(self, partitions: int, now_ms: int) -> bool:
        """Whether a consumer may have these further partitions, after the eviction of unused sessions."""
        while self._partitions_of_consumers + partitions > PARTITIONS_MAX:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms <= EVICTION_MS_MIN:
                return False
            self._remove(oldest)
            self._evictions += 1
        return True

    def _open(self, fetching: Fetching, found: list[FetchedPartition], now_ms: int) -> int:
        """Return the id of a new session, or NO_SESSION if there is no room."""
        partitions, privileged = fetching.partitions, fetching.privileged
        if not privileged and not self._has_room(len(partitions), now_ms):
            return NO_SESSION
        if len(self._sessions) >= self._slots and not self._evict((privileged, len(partitions), 0), now_ms):
            return NO_SESSION
        session_id = self._rng.randrange(1, SESSION_ID_MAX)
        while session_id in self._sessions:
            session_id = self._rng.randrange(1, SESSION_ID_MAX)
        session = FetchSession(session_id, partitions, fetching.by_id, privileged, now_ms, now_ms)
        remember(found)
        self._sessions[session_id] = fetching.session = session
        self._touch(session, now_ms)
        return session_id

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        self._sessions.move_to_end(session.id)
        session.used_ms = now_ms
        settled = now_ms - session.created_ms > EVICTION_MS_MIN
        if len(session.partitions) != session.size or settled is not session.settled:
            self._unrank(session)
            self._count(session, len(session.partitions) - max(0, session.size))
            session.size, session.settled = len(session.partitions), settled
            for ranks in self._ranks(session):
                insort(ranks, rank(session))

    def _evict(self, newcomer: Rank, now_ms: int) -> bool:
        """Evict one session for the new one. Return False if rules 1 to 3 of the module allow none."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS_MIN:
            self._remove(oldest)
        else:
            privileged, _, _ = newcomer
            ranks = self._evictable_by_privileged if privileged else self._evictable
            if not ranks or newcomer < ranks[0]:
                return False
            self._remove(self._sessions[ranks[0][-1]])
        self._evictions += 1
        return True

    def _remove(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        session.is_removed = True
        self._count(session, -session.size)
        self._unrank(session)
        if session.follower is not None:
            session.follower.close()

    def _count(self, session: FetchSession, partitions: int) -> None:
        self._partitions += partitions
        if not session.privileged:
            self._partitions_of_consumers += partitions

    def _unrank(self, session: FetchSession) -> None:
        for ranks in self._ranks(session):
            place = bisect_left(ranks, rank(session))
            if place < len(ranks) and ranks[place] == rank(session):
                del ranks[place]

    def _ranks(self, session: FetchSession) -> Iterator[list[Rank]]:
        if session.settled:
            yield self._evictable
        if session.settled or not session.privileged:
            yield self._evictable_by_privileged


def rank(session: FetchSession) -> Rank:
    """Return the session's eviction rank."""
    return session.privileged, session.size, session.id
