"""The fetch sessions of one broker: bounded, and who may push out whom when they are too many (KIP-227).

1. A session that was not used for two minutes gives way to any new one, the one unused longest first.
2. Without such a one, the least that may give way goes, if it is less than the new one: a consumer's is less than a
   follower's, and the one with fewer partitions is less.
3. May give way: to a follower every consumer's, to anybody every session that is used for more than two minutes.
4. Where nobody gives way, the newcomer fetches without a session. So does who would bring in too many partitions.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.session import NO_SESSION, FetchedPartition, Fetching, FetchSession, remember, respond, wishes
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchRequest, FetchResponse

EVICTION_MS_MIN = 120_000
OPENING_EPOCH, CLOSING_EPOCH = 0, -1
SESSION_ID_MAX = 2**31 - 1
PARTITIONS_MAX = 100_000
"""Of all sessions together, some 40 MB. Kafka has no such bound."""

Rank = tuple[bool, int, int]
"""Privileged, partitions, id: the least goes first."""


class Draw(Protocol):
    """The part of `random.Random` that session ids need."""

    def randrange(self, start: int, stop: int) -> int:
        """From `start` up to, not including, `stop`."""


class Statistics(NamedTuple):
    """The cache at one moment; `evictions` counts from the start."""

    sessions: int
    partitions: int
    evictions: int


class FetchSessionCache:
    """At most `slots` sessions (max.incremental.fetch.session.cache.slots). Times in ms, of a clock that only rises."""

    def __init__(self, slots: int, rng: Draw) -> None:
        self._slots, self._rng = slots, rng
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # the one unused longest first
        self._evictable: list[Rank] = []  # of settled sessions, least first
        self._evictable_by_privileged: list[Rank] = []  # of settled sessions and all that are not privileged
        self._evictions = self._partitions = 0

    def begin(self, request: FetchRequest, *, by_id: bool, privileged: bool, now_ms: int) -> Fetching:
        """What a request is about. ApiError: its session is not known, or is not as the client believes."""
        epoch = request.session_epoch
        if epoch in (CLOSING_EPOCH, OPENING_EPOCH):
            if request.session_id and (closed := self._sessions.get(request.session_id)) is not None:
                self._remove(closed)
            return Fetching(wishes(request, by_id=by_id), by_id, privileged, epoch == OPENING_EPOCH)
        session = self._session(request, by_id)
        if request.topics or request.forgotten_topics_data:
            session.update(request)
            self._check_room(session)
        if not session.partitions:
            self._remove(session)
            return Fetching(wishes(request, by_id=by_id), by_id)
        self._touch(session, now_ms)
        return Fetching(session.partitions, by_id, privileged, False, session, session.advance())

    def open(self, fetching: Fetching, found: list[FetchedPartition], now_ms: int) -> FetchResponse:
        """The response of an opening request, with the id of its session where there was room for one."""
        return respond(self._open(fetching, found, now_ms), found)

    def statistics(self) -> Statistics:
        """How full the cache is."""
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

    def _check_room(self, session: FetchSession) -> None:
        """A session that has grown too large ends, as if it had never been."""
        if self._partitions + len(session.partitions) - session.size > PARTITIONS_MAX:
            self._remove(session)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def _open(self, fetching: Fetching, found: list[FetchedPartition], now_ms: int) -> int:
        """The id of a new session, or NO_SESSION."""
        partitions, privileged = fetching.partitions, fetching.privileged
        if self._partitions + len(partitions) > PARTITIONS_MAX:
            return NO_SESSION
        if len(self._sessions) >= self._slots and not self._evict((privileged, len(partitions), 0), now_ms):
            return NO_SESSION
        session_id = self._rng.randrange(1, SESSION_ID_MAX)
        while session_id in self._sessions:
            session_id = self._rng.randrange(1, SESSION_ID_MAX)
        session = FetchSession(session_id, partitions, fetching.by_id, privileged, now_ms, now_ms)
        remember(found)
        self._sessions[session_id] = session
        self._touch(session, now_ms)
        return session_id

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        self._sessions.move_to_end(session.id)
        session.used_ms = now_ms
        settled = now_ms - session.created_ms > EVICTION_MS_MIN
        if len(session.partitions) != session.size or settled is not session.settled:
            self._unrank(session)
            self._partitions += len(session.partitions) - max(0, session.size)
            session.size, session.settled = len(session.partitions), settled
            for ranks in self._ranks(session):
                insort(ranks, rank(session))

    def _evict(self, newcomer: Rank, now_ms: int) -> bool:
        """Make room for one session, if rules 1 to 3 let it."""
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
        self._partitions -= session.size
        self._unrank(session)

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
    """Where a session stands among those that may give way."""
    return session.privileged, session.size, session.id
