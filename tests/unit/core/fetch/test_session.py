"""Tests of fetch sessions: the partitions of each response, in examples and compared with a simple model."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.epochs import EPOCH_MAX
from pykbroker.core.fetch.session import FetchedPartition, Fetching, PartitionKey
from pykbroker.core.fetch.session_cache import EVICTION_MS_MIN, PARTITIONS_MAX, FetchSessionCache
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

NAMES = {b"A" * 16: "a", b"B" * 16: "b"}
CLOSE, OPEN = -1, 0


class Numbers:
    """A source of consecutive session ids that sometimes repeats one."""

    def __init__(self) -> None:
        self._next = count(1)

    def randrange(self, start: int, stop: int) -> int:
        number = next(self._next)
        return max(start, number // 2)


def ask(
    *wanted: tuple[str | bytes, int],
    session_id: int = 0,
    epoch: int = CLOSE,
    forget: tuple[PartitionKey, ...] = (),
    offset: int = 0,
) -> FetchRequest:
    def name(topic: str | bytes) -> dict[str, Any]:
        return {"topic": topic} if isinstance(topic, str) else {"topic_id": topic}

    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(**name(topic), partitions=[FetchPartition(partition=index, fetch_offset=offset)])
            for topic, index in wanted
        ],
        forgotten_topics_data=[ForgottenTopic(**name(topic), partitions=[index]) for topic, index in forget],
    )


def give(fetching: Fetching, **changed: dict[str, Any]) -> list[FetchedPartition]:
    """Return the data of each requested partition. Named partitions, such as "a0", have other fields
    than by default.
    """
    return [
        (
            wanted,
            PartitionData(
                **{
                    "partition_index": wanted.key[1],
                    "high_watermark": 5,
                    "log_start_offset": 0,
                    "records": b"",
                    **changed.get(f"{wanted.topic}{wanted.key[1]}", {}),
                }
            ),
        )
        for wanted in fetching.partitions.values()
    ]


def answer(cache: FetchSessionCache, fetching: Fetching, found: list[FetchedPartition], now_ms: int) -> FetchResponse:
    """Answer a request as the Fetch API does."""
    return cache.open(fetching, found, now_ms) if fetching.opening else fetching.answer(found)


def reported(response: FetchResponse) -> list[str]:
    return [f"{topic.topic}{one.partition_index}" for topic in response.responses for one in topic.partitions]


class Session:
    """A cache with one client's session that fetches partitions a0, a1 and b0."""

    def __init__(self) -> None:
        self.cache, self.epoch = FetchSessionCache(10, Random(0)), 1
        opened = self.cache.begin(
            ask(("a", 0), ("a", 1), ("b", 0), epoch=OPEN), by_id=False, privileged=False, now_ms=0
        )
        response = answer(self.cache, opened, give(opened), 0)
        assert reported(response) == ["a0", "a1", "b0"]
        self.id = response.session_id
        assert self.id > 0

    def begin(self, *wanted: tuple[str, int], forget: tuple[PartitionKey, ...] = (), offset: int = 0) -> Fetching:
        request = ask(*wanted, session_id=self.id, epoch=self.epoch, forget=forget, offset=offset)
        fetching = self.cache.begin(request, by_id=False, privileged=False, now_ms=0)
        self.epoch += 1
        return fetching

    def fetch(
        self, *wanted: tuple[str, int], forget: tuple[PartitionKey, ...] = (), **changed: dict[str, object]
    ) -> list[str]:
        fetching = self.begin(*wanted, forget=forget)
        response = answer(self.cache, fetching, give(fetching, **changed), 0)
        assert (response.error_code, response.session_id) == (0, self.id)
        return reported(response)


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.mark.parametrize(
    "news",
    [
        {"records": b"x"},
        {"high_watermark": 6},
        {"log_start_offset": 1},
        {"preferred_read_replica": 2},
        {"diverging_epoch": EpochEndOffset(epoch=0, end_offset=3)},
        {"error_code": 6},
    ],
)
def test_an_incremental_response_has_only_changed_partitions(session: Session, news: dict[str, object]) -> None:
    assert session.fetch() == []
    assert session.fetch(a1=news) == ["a1"]


def test_an_unchanged_partition_is_not_sent_again(session: Session) -> None:
    assert session.fetch(a1={"high_watermark": 6}) == ["a1"]
    assert session.fetch(a1={"high_watermark": 6}) == []
    assert session.fetch(a1={"high_watermark": 7, "log_start_offset": 2}) == ["a1"]
    assert session.fetch(a1={"high_watermark": 7, "log_start_offset": 2}) == []


def test_a_changed_last_stable_offset_alone_is_not_sent(session: Session) -> None:
    assert session.fetch(a1={"last_stable_offset": 4}) == []


def test_an_error_is_sent_each_time_and_once_more_when_it_ends(session: Session) -> None:
    failing: dict[str, object] = {"error_code": 6, "high_watermark": -1, "log_start_offset": -1}
    assert session.fetch(a0=failing) == ["a0"]
    assert session.fetch(a0=failing) == ["a0"]
    assert session.fetch() == ["a0"]
    assert session.fetch() == []


def test_partitions_with_records_take_turns_at_the_front_of_the_response(session: Session) -> None:
    some: dict[str, object] = {"records": b"x"}
    everybody: dict[str, Any] = {"a0": some, "a1": some, "b0": some}
    assert session.fetch(a0=some) == ["a0"]
    assert session.fetch(**everybody) == ["a1", "b0", "a0"]
    assert session.fetch(b0=some) == ["b0"]
    assert session.fetch(**everybody) == ["a1", "a0", "b0"]


def test_a_request_adds_and_removes_partitions(session: Session) -> None:
    assert session.fetch(("b", 1), forget=(("a", 0),)) == ["b1"]
    fetching = session.begin(("a", 1), offset=9)
    assert [wanted.key for wanted in fetching.partitions.values()] == [("a", 1), ("b", 0), ("b", 1)]
    assert fetching.partitions["a", 1].asked.fetch_offset == 9
    assert session.cache.statistics() == (1, 3, 0)


def test_a_session_without_partitions_is_closed(session: Session) -> None:
    fetching = session.begin(forget=(("a", 0), ("a", 1), ("b", 0), ("b", 7)))
    response = answer(session.cache, fetching, give(fetching), 0)
    assert (response.error_code, response.session_id, response.responses) == (0, 0, [])
    with pytest.raises(ApiError) as caught:
        session.begin()
    assert caught.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_request_must_have_the_next_session_epoch(session: Session) -> None:
    session.fetch()
    for epoch in (1, 3, EPOCH_MAX, -2):
        session.epoch = epoch
        with pytest.raises(ApiError) as caught:
            session.begin()
        assert caught.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    session.epoch = 2
    assert session.fetch() == []


def test_the_session_epoch_wraps_to_1(session: Session) -> None:
    fetching = session.begin()
    assert fetching.session is not None
    fetching.session.epoch = session.epoch = EPOCH_MAX
    session.fetch()
    session.epoch = 1
    assert session.fetch() == []


def test_a_request_with_the_epoch_of_an_answered_request_is_an_epoch_error(session: Session) -> None:
    slow, quick = session.begin(), session.begin()
    response = answer(session.cache, slow, give(slow, a0={"records": b"x"}), 0)
    assert (response.error_code, response.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id)
    assert reported(answer(session.cache, quick, give(quick, a0={"records": b"x"}), 0)) == ["a0"]


@pytest.mark.parametrize("by_id", [False, True])
def test_a_session_uses_topic_names_or_topic_ids_only(*, by_id: bool) -> None:
    cache = FetchSessionCache(10, Random(0))
    topic: str | bytes = b"A" * 16 if by_id else "a"
    opened = cache.begin(ask((topic, 0), epoch=OPEN), by_id=by_id, privileged=False, now_ms=0)
    session_id = answer(cache, opened, give(opened), 0).session_id
    with pytest.raises(ApiError) as caught:
        cache.begin(ask(session_id=session_id, epoch=1), by_id=not by_id, privileged=False, now_ms=0)
    assert caught.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize("epoch", [OPEN, CLOSE])
def test_a_full_request_closes_the_session_that_it_names(session: Session, epoch: int) -> None:
    request = ask(("a", 0), session_id=session.id, epoch=epoch)
    fetching = session.cache.begin(request, by_id=False, privileged=False, now_ms=0)
    response = answer(session.cache, fetching, give(fetching), 0)
    assert (reported(response), response.session_id == 0) == (["a0"], epoch == CLOSE)
    assert response.session_id != session.id
    with pytest.raises(ApiError):
        session.begin()


def test_a_repeated_partition_counts_once() -> None:
    cache = FetchSessionCache(10, Random(0))
    request = ask(("a", 0), ("a", 1), ("a", 0))
    request.topics[2].partitions[0].fetch_offset = 7
    fetching = cache.begin(request, by_id=False, privileged=False, now_ms=0)
    assert [(one.key, one.asked.fetch_offset) for one in fetching.partitions.values()] == [(("a", 0), 7), (("a", 1), 0)]


def test_consecutive_partitions_of_a_topic_share_one_topic_entry(session: Session) -> None:
    fetching = session.begin(("a", 2))
    response = answer(session.cache, fetching, give(fetching, a0={"high_watermark": 9}, b0={"high_watermark": 9}), 0)
    assert [(topic.topic, len(topic.partitions)) for topic in response.responses] == [("a", 1), ("b", 1), ("a", 1)]


class Evictions:
    """A session cache, by default with two slots."""

    def __init__(self, slots: int = 2) -> None:
        self.cache, self.epochs = FetchSessionCache(slots, Random(0)), dict[int, int]()

    def open(self, size: int, now_ms: int, *, privileged: bool = False) -> int:
        request = ask(*(("a", index) for index in range(size)), epoch=OPEN)
        fetching = self.cache.begin(request, by_id=False, privileged=privileged, now_ms=now_ms)
        session_id = answer(self.cache, fetching, give(fetching), now_ms).session_id
        self.epochs[session_id] = 1
        return session_id

    def use(self, session_id: int, now_ms: int, *more: tuple[str, int], forget: tuple[PartitionKey, ...] = ()) -> bool:
        """Send a request that adds the partitions `more` to the session and removes the partitions `forget`.

        Return whether the session still exists.
        """
        try:
            request = ask(*more, session_id=session_id, epoch=self.epochs[session_id], forget=forget)
            self.cache.begin(request, by_id=False, privileged=False, now_ms=now_ms)
        except ApiError:
            return False
        self.epochs[session_id] += 1
        return True


def test_a_cache_without_slots_has_no_sessions() -> None:
    assert Evictions(slots=0).open(1, 0) == 0


def test_a_recently_created_consumer_session_is_evicted_only_for_a_follower() -> None:
    some = Evictions()
    first, second = some.open(1, 0), some.open(2, 1)
    assert some.open(100, EVICTION_MS_MIN) == 0
    follower = some.open(1, EVICTION_MS_MIN, privileged=True)
    assert follower > 0
    assert (some.use(first, EVICTION_MS_MIN), some.use(second, EVICTION_MS_MIN)) == (False, True)
    assert some.cache.statistics() == (2, 3, 1)


def test_the_least_recently_used_session_is_evicted_first() -> None:
    some = Evictions()
    first, second = some.open(9, 0), some.open(1, 1)
    assert some.use(first, 2)
    third = some.open(1, EVICTION_MS_MIN + 2)
    assert third > 0
    assert (some.use(first, EVICTION_MS_MIN + 3), some.use(second, EVICTION_MS_MIN + 3)) == (True, False)


def test_a_new_session_evicts_an_older_session_with_fewer_partitions() -> None:
    some = Evictions()
    first, second = some.open(3, 0), some.open(2, 1)
    now_ms = EVICTION_MS_MIN + 2
    assert some.use(first, now_ms)
    assert some.use(second, now_ms)
    assert some.open(2, now_ms) == 0
    assert some.open(3, now_ms) > 0
    assert (some.use(first, now_ms), some.use(second, now_ms)) == (True, False)


def test_a_session_is_ranked_for_eviction_by_its_current_size() -> None:
    """Fill the cache as well, to check that the rank of the former size is removed."""
    some = Evictions()
    first, second = some.open(1, 0), some.open(2, 1)
    now_ms = EVICTION_MS_MIN + 2
    assert (some.use(first, now_ms), some.use(second, now_ms)) == (True, True)
    assert some.use(first, now_ms, ("b", 0), ("b", 1))
    third = some.open(3, now_ms)
    assert third > 0, "the second session, with the fewest partitions, is evicted"
    assert (some.use(first, now_ms), some.use(second, now_ms)) == (True, False)
    assert some.use(first, now_ms, forget=(("a", 0), ("b", 0)))
    assert some.open(2, now_ms) > 0, "the first session, which shrank, is evicted"
    assert (some.use(first, now_ms), some.use(third, now_ms)) == (False, True)
    assert some.cache.statistics() == (2, 5, 2)


def test_closing_a_session_that_grew_removes_its_rank() -> None:
    some = Evictions(slots=1)
    grown = some.open(1, 0)
    now_ms = EVICTION_MS_MIN + 1
    assert some.use(grown, now_ms)
    assert some.use(grown, now_ms, ("b", 0))
    some.cache.begin(ask(session_id=grown, epoch=CLOSE), by_id=False, privileged=False, now_ms=now_ms)
    young = some.open(1, now_ms)
    assert some.open(9, now_ms) == 0, "the only session is too young to be evicted"
    assert some.use(young, now_ms)


def test_an_older_follower_session_is_evicted_only_for_a_larger_follower_session() -> None:
    some = Evictions(slots=1)
    follower = some.open(1, 0, privileged=True)
    assert some.use(follower, EVICTION_MS_MIN + 1)
    assert some.open(100, EVICTION_MS_MIN + 1) == 0
    assert some.open(1, EVICTION_MS_MIN + 1, privileged=True) == 0
    assert some.open(2, EVICTION_MS_MIN + 1, privileged=True) > 0


def test_the_total_number_of_partitions_in_sessions_is_limited() -> None:
    some = Evictions(slots=10)
    large, small = some.open(PARTITIONS_MAX - 10, 0), some.open(10, 0)
    assert some.open(1, 0) == 0
    request = ask(("b", 0), session_id=small, epoch=1)
    with pytest.raises(ApiError) as caught:
        some.cache.begin(request, by_id=False, privileged=False, now_ms=0)
    assert caught.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (some.use(small, 0), some.use(large, 0)) == (False, True)
    assert some.cache.statistics() == (1, PARTITIONS_MAX - 10, 0)
    assert some.open(10, 0) > 0


def test_followers_have_no_limit_of_partitions_and_take_none_of_consumers() -> None:
    some = Evictions(slots=10)
    consumer, follower = some.open(PARTITIONS_MAX - 1, 0), some.open(PARTITIONS_MAX + 1, 0, privileged=True)
    assert consumer
    assert follower
    assert some.open(1, 0)
    assert some.open(1, 0) == 0
    assert some.use(follower, 0, ("b", 0))
    assert some.cache.statistics() == (3, 2 * PARTITIONS_MAX + 2, 0)


@pytest.mark.parametrize(("unused_ms", "evicted"), [(EVICTION_MS_MIN, 0), (EVICTION_MS_MIN + 1, 2)])
def test_unused_sessions_make_room_for_partitions_of_another_consumer(unused_ms: int, evicted: int) -> None:
    some = Evictions(slots=10)
    for _ in range(5):
        assert some.open(PARTITIONS_MAX // 5, 0)
    opened = some.open(PARTITIONS_MAX // 5 + 1, unused_ms)
    assert (opened > 0) == (evicted > 0)
    assert some.cache.statistics().evictions == evicted


@pytest.mark.parametrize(("unused_ms", "stays"), [(EVICTION_MS_MIN, False), (EVICTION_MS_MIN + 1, True)])
def test_unused_sessions_make_room_for_a_session_that_grows(unused_ms: int, *, stays: bool) -> None:
    some = Evictions(slots=10)
    growing, unused = some.open(10, 0), some.open(PARTITIONS_MAX - 10, 0)
    assert some.use(growing, unused_ms, ("b", 0)) == stays
    assert some.use(unused, unused_ms) != stays


# ---- compared with a model

KEYS: list[PartitionKey] = [(topic, index) for topic in NAMES for index in range(2)]
MANY = st.lists(st.sampled_from(KEYS), max_size=4)


class ModelSession:
    """A model of one session as in KIP-227, with lists and full scans."""

    def __init__(
        self,
        session_id: int,
        keys: list[PartitionKey],
        offsets: dict[PartitionKey, int],
        now_ms: int,
        *,
        privileged: bool,
    ) -> None:
        self.id, self.keys, self.offsets, self.privileged = session_id, keys, offsets, privileged
        self.reported: dict[PartitionKey, tuple[int, int]] = {}
        self.epoch, self.created_ms = 1, now_ms
        self.use(now_ms)

    def use(self, now_ms: int) -> None:
        self.used_ms, self.size = now_ms, len(self.keys)
        self.settled = now_ms - self.created_ms > EVICTION_MS_MIN


class ModelCache:
    """A model of the session cache as in KIP-227."""

    def __init__(self, slots: int) -> None:
        self.slots, self.sessions, self.numbers = slots, dict[int, ModelSession](), Numbers()

    def open(self, keys: list[PartitionKey], now_ms: int, *, privileged: bool) -> ModelSession | None:
        if len(self.sessions) >= self.slots and not self._evict(len(keys), now_ms, privileged=privileged):
            return None
        session_id = self.numbers.randrange(1, 2)
        while session_id in self.sessions:
            session_id = self.numbers.randrange(1, 2)
        session = ModelSession(session_id, keys, {}, now_ms, privileged=privileged)
        self.sessions[session_id] = session
        return session

    def _evict(self, size: int, now_ms: int, *, privileged: bool) -> bool:
        every = list(self.sessions.values())
        stale = [one for one in every if now_ms - one.used_ms > EVICTION_MS_MIN]
        movable = [one for one in every if one.settled or (privileged and not one.privileged)]
        if stale:
            victim = min(stale, key=lambda one: one.used_ms)
        elif movable:
            victim = min(movable, key=lambda one: (one.privileged, one.size, one.id))
            if (victim.privileged, victim.size) > (privileged, size) or (
                (victim.privileged, victim.size) == (privileged, size)
            ):
                return False
        else:
            return False
        del self.sessions[victim.id]
        return True


class Sessions(RuleBasedStateMachine):
    """Random clients that open, use and lose sessions while logs grow, are truncated and fail."""

    def __init__(self) -> None:
        super().__init__()
        self.cache, self.model = FetchSessionCache(3, Numbers()), ModelCache(3)
        self.logs = dict.fromkeys(KEYS, (2, 0, 0))
        self.now_ms = 0
        self.waiting: list[tuple[Fetching, ModelSession, int]] = []

    @rule(key=st.sampled_from(KEYS))
    def append(self, key: PartitionKey) -> None:
        high_watermark, start, error = self.logs[key]
        self.logs[key] = (high_watermark + 1, start, error)

    @rule(key=st.sampled_from(KEYS))
    def trim(self, key: PartitionKey) -> None:
        high_watermark, _, error = self.logs[key]
        self.logs[key] = (high_watermark, high_watermark, error)

    @rule(key=st.sampled_from(KEYS))
    def fail_or_heal(self, key: PartitionKey) -> None:
        high_watermark, start, error = self.logs[key]
        self.logs[key] = (high_watermark, start, 6 - error)

    @rule(ms=st.sampled_from([50_000, EVICTION_MS_MIN + 1]))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms

    @rule(keys=MANY, offset=st.integers(0, 3), privileged=st.booleans(), old=st.integers(0, 12))
    def open(self, keys: list[PartitionKey], offset: int, privileged: bool, old: int) -> None:
        self.now_ms += 1
        self.model.sessions.pop(old, None)
        request = ask(*keys, session_id=old, epoch=OPEN, offset=offset)
        fetching = self.cache.begin(request, by_id=True, privileged=privileged, now_ms=self.now_ms)
        response = answer(self.cache, fetching, self.found(fetching), self.now_ms)
        keys = list(dict.fromkeys(keys))
        session = self.model.open(keys, self.now_ms, privileged=privileged)
        assert response.session_id == (session.id if session else 0)
        assert self.reported(response) == keys
        if session is not None:
            session.offsets = dict.fromkeys(keys, offset)
            session.reported = {key: self.offsets_of(key) for key in keys}

    @precondition(lambda self: self.model.sessions)
    @rule(data=st.data(), add=MANY, forget=MANY, offset=st.integers(0, 3), late=st.integers(-1, 1), wait=st.booleans())
    def use(
        self,
        data: st.DataObject,
        add: list[PartitionKey],
        forget: list[PartitionKey],
        offset: int,
        late: int,
        wait: bool,
    ) -> None:
        self.now_ms += 1
        session = data.draw(st.sampled_from(list(self.model.sessions.values())))
        request = ask(
            *add, session_id=session.id, epoch=session.epoch + late * 1000, forget=tuple(forget), offset=offset
        )
        if late:
            with pytest.raises(ApiError):
                self.cache.begin(request, by_id=True, privileged=session.privileged, now_ms=self.now_ms)
            return
        fetching = self.cache.begin(request, by_id=True, privileged=session.privileged, now_ms=self.now_ms)
        session.keys += [key for key in dict.fromkeys(add) if key not in session.keys]
        session.offsets |= dict.fromkeys(add, offset)
        session.keys = [key for key in session.keys if key not in forget]
        session.reported = {key: reported for key, reported in session.reported.items() if key in session.keys}
        if not session.keys:
            del self.model.sessions[session.id]
            assert answer(self.cache, fetching, self.found(fetching), self.now_ms).session_id == 0
            return
        session.epoch += 1
        session.use(self.now_ms)
        assert [wanted.key for wanted in fetching.partitions.values()] == session.keys
        self.waiting.append((fetching, session, session.epoch))
        if not wait:
            self.answer(-1)

    @precondition(lambda self: self.waiting)
    @rule(which=st.integers(0, 3))
    def answer(self, which: int) -> None:
        fetching, session, epoch = self.waiting.pop(which % len(self.waiting) if which >= 0 else -1)
        found = self.found(fetching)
        response = answer(self.cache, fetching, found, self.now_ms)
        gone = self.model.sessions.get(session.id) is not session  # Another session may have this id by now.
        if gone or session.epoch != epoch:
            evicted = gone and response.error_code == 0  # No other request of the session has arrived since.
            assert evicted or response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
            return
        news = [key for key in session.keys if self.is_news(session, key)]
        assert (response.session_id, self.reported(response)) == (session.id, news)
        for key in news:
            session.reported[key] = self.offsets_of(key)
            if self.records(session, key):
                session.keys.remove(key)
                session.keys.append(key)

    def found(self, fetching: Fetching) -> list[FetchedPartition]:
        found = []
        for key, wanted in fetching.partitions.items():
            high_watermark, start = self.offsets_of(key)
            records = b"x" if high_watermark > wanted.asked.fetch_offset else b""
            found.append(
                (
                    wanted,
                    PartitionData(key[1], self.logs[key][2], high_watermark, log_start_offset=start, records=records),
                )
            )
        return found

    def offsets_of(self, key: PartitionKey) -> tuple[int, int]:
        high_watermark, start, error = self.logs[key]
        return (-1, -1) if error else (high_watermark, start)

    def records(self, session: ModelSession, key: PartitionKey) -> bool:
        return self.offsets_of(key)[0] > session.offsets[key]

    def is_news(self, session: ModelSession, key: PartitionKey) -> bool:
        changed = session.reported.get(key, (-1, -1)) != self.offsets_of(key)
        return changed or self.logs[key][2] != 0 or self.records(session, key)

    def reported(self, response: FetchResponse) -> list[PartitionKey]:
        assert all(topic.topic_id != NIL for topic in response.responses)
        return [(topic.topic_id, one.partition_index) for topic in response.responses for one in topic.partitions]

    @invariant()
    def counts_agree(self) -> None:
        sessions = self.model.sessions.values()
        assert self.cache.statistics()[:2] == (len(sessions), sum(one.size for one in sessions))


TestSessions = Sessions.TestCase
TestSessions.settings = settings(stateful_step_count=80, max_examples=100, deadline=None)
