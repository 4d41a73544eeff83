"""The fetcher of the partitions that this broker follows from one leader, over one connection."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from math import inf

import trio
from msgspec.structs import astuple

from pykbroker.client.errors import Disconnected
from pykbroker.core.errors import ApiError
from pykbroker.core.replication.fetch_plan import FollowedAnswer, FollowerPlan
from pykbroker.core.replication.following import CutLog, FollowerDecision, Pause, Restart, Store, decide
from pykbroker.core.replication.quota import ReplicationQuota
from pykbroker.core.topic_partition import TopicIdPartition
from pykbroker.replica.following.fetch_failures import FetchFailures
from pykbroker.replica.following.fetch_settings import ReplicaFetchSettings
from pykbroker.replica.following.followed import Followed
from pykbroker.replica.following.leader_link import LeaderLink
from pykbroker.replica.following.leader_offsets import after_range_of
from pykbroker.replica.following.throttled import ThrottledFollowed
from pykbroker.world.portions import AT_ONCE_MAX
from wire.error_codes import ErrorCode, error_code
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.fetch import FetchRequest, FetchResponse, ReplicaState

logger = logging.getLogger(__name__)

STEP_BYTES_MAX = 256 << 10
"""The size of records that are stored before other tasks may run."""
FIRST_PAUSE_MS = 20
"""The first pause of a partition or a leader after an error. It doubles at each error in a row, up to
replica.fetch.backoff.ms."""
MS_PER_S = 1000
PAUSES_MAX = 16
"""The number of pauses in a row after which the pause no longer doubles."""


class ReplicaFetcher:
    """The fetcher of partitions led by broker `leader`.

    An error of one partition pauses only that partition. `quota` limits the traffic of throttled partitions.
    `broker_epoch` is set by the owner from the metadata. `numbers` yields the numbers of the fetches, which all
    fetchers of a broker share, and `answered` is the last one with an answer, 0 without one.
    """

    def __init__(
        self,
        node_id: int,
        leader: int,
        link: LeaderLink,
        settings: ReplicaFetchSettings,
        quota: ReplicationQuota,
        numbers: Iterator[int],
    ) -> None:
        self._node_id, self.leader, self._link, self._settings = node_id, leader, link, settings
        self._fetch_numbers, self.answered = numbers, 0
        self.broker_epoch = -1
        self._plan: FollowerPlan[Followed] = FollowerPlan(lambda one: one.wanted, settings.partition_bytes_max)
        self._throttled = ThrottledFollowed(self._plan, quota)
        self._paused: list[tuple[float, int, Followed]] = []
        self._numbers = count()
        self._changed = trio.Event()
        self._waits = False
        """Whether a fetch has no response yet, and nothing has hurried it."""
        self._nursery: trio.Nursery | None = None
        self._failures = FetchFailures(leader)
        self._broken = 0
        """The number of requests in a row without a response."""

    def __len__(self) -> int:
        return len(self._plan) + len(self._paused) + len(self._throttled)

    def add(self, followed: Followed) -> None:
        """Fetch a partition from its current position on."""
        self._resume(followed)
        self._throttled.add(followed)
        self._changed.set()
        if self._waits and self._nursery is not None:
            self._nursery.start_soon(self._hurry)

    def _resume(self, followed: Followed) -> None:
        followed.leader_high_watermark = None
        self._plan.add(followed.key, followed)

    def has_answer(self, followed: Followed, since: int) -> bool:
        """Whether a fetch of this partition that was sent after fetch number `since` has an answer."""
        return self._plan.get(followed.key) is followed and self.answered > since

    def remove(self, followed: Followed) -> None:
        """Fetch a partition no longer."""
        if self._plan.get(followed.key) is followed:
            self._plan.remove(followed.key)
        self._paused = [one for one in self._paused if one[2] is not followed]
        self._throttled.remove(followed)
        self._failures.forget(followed.key)

    async def run(self) -> None:
        """Fetch until cancelled. The caller closes the fetcher then."""
        try:
            async with trio.open_nursery() as self._nursery:
                while True:
                    await self._wait_for_partitions()
                    await self._fetch()
        finally:
            self._nursery = None

    async def end_session(self) -> None:
        """End the fetch session, which the leader would keep otherwise. An error has no effect (KIP-227)."""
        request = FetchRequest(replica_state=ReplicaState(self._node_id, self.broker_epoch), max_wait_ms=0)
        if self._plan.end(request):
            with suppress(OSError, Disconnected):
                await self._link.ask(request)

    def close(self) -> None:
        """Close the connection to the leader."""
        self._link.close()

    # ---- one fetch

    async def _wait_for_partitions(self) -> None:
        """Wait until a partition may be fetched, and resume those whose pause is over."""
        while True:
            resumed = 0
            while self._paused and self._paused[0][0] <= trio.current_time():
                _, _, followed = heappop(self._paused)
                if followed.position is not None and self._plan.get(followed.key) is None:
                    self._resume(followed)
                resumed += 1
                if resumed % AT_ONCE_MAX == 0:
                    await trio.lowlevel.checkpoint()
            self._throttled.sort_out(now_ms())
            if len(self._plan):
                return
            self._changed = trio.Event()
            ends_at = self._paused[0][0] if self._paused else inf
            if len(self._throttled):
                ends_at = min(ends_at, trio.current_time() + self._throttle_ms() / MS_PER_S)
            with trio.move_on_at(ends_at):
                await self._changed.wait()

    def _throttle_ms(self) -> float:
        """Return for how long a request would have no partition. The quota or its limit may change meanwhile."""
        return min(self._throttled.wait_ms(now_ms()), self._settings.backoff_ms)

    async def _fetch(self) -> None:
        settings = self._settings
        request = FetchRequest(
            replica_state=ReplicaState(self._node_id, self.broker_epoch),
            max_wait_ms=settings.wait_ms_max,
            min_bytes=settings.bytes_min,
            max_bytes=settings.response_bytes_max,
        )
        number = next(self._fetch_numbers)
        self._plan.fill(request)
        # `fill` drops partitions that are followed no longer, and a request without one must not be sent.
        if not len(self._plan):
            return
        try:
            response = await self._ask(request)
        except (OSError, Disconnected) as error:
            self._log_failure(error)
            # The leader may have handled the request, so that the epoch of its session is unknown.
            self._plan.failed()
            self._link.close()
            await trio.sleep(self._backoff_ms(self._broken) / MS_PER_S)
            self._broken += 1
            return
        self._broken = 0
        answers = self._plan.received(response)
        if answers is None:
            logger.info("leader %d: fetch session ended: %s", self.leader, error_code(response.error_code).name)
            return
        await self._take(answers)
        # After `_take`, since `has_answer` vouches for the high watermarks of this response.
        self.answered = number

    async def _ask(self, request: FetchRequest) -> FetchResponse:
        """Return the response to a fetch, which a partition that is added meanwhile hurries, or the end of a pause.

        A fetch has a task beside it only while a partition is paused, since a task costs as much as a small fetch.
        """
        self._waits = True
        try:
            if self._paused:
                return await self._ask_until(self._paused[0][0], request)
            response: FetchResponse = await self._link.ask(request)
            return response
        finally:
            self._waits = False

    async def _ask_until(self, resumed_at: float, request: FetchRequest) -> FetchResponse:
        """Return the response to a fetch, which is hurried at this time."""
        response, failure = FetchResponse(), None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hurry_at, resumed_at)
            try:
                response = await self._link.ask(request)
            except (OSError, Disconnected) as error:
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return response

    async def _hurry_at(self, time_s: float) -> None:
        await trio.sleep_until(time_s)
        await self._hurry()

    async def _hurry(self) -> None:
        """Ask for API versions, unless that was done since the last fetch.

        The leader then answers a fetch that waits for records. A new partition, or a new leader, would otherwise wait
        for up to replica.fetch.wait.max.ms.
        """
        if self._waits:
            self._waits = False
            with suppress(OSError, Disconnected):
                await self._link.ask(ApiVersionsRequest(), 0)

    async def _take(self, answers: list[tuple[TopicIdPartition, FollowedAnswer[Followed]]]) -> None:
        """Act on the answers, then flush the logs whose records must be durable before the next fetch."""
        size, unflushed = 0, []
        had_room = self._settings.had_room(sum(len(answer.data.records or b"") for _, answer in answers))
        for place, (_, answer) in enumerate(answers, 1):
            if place % AT_ONCE_MAX == 0:
                await trio.lowlevel.checkpoint()
            followed = answer.partition
            try:
                await self._act(answer, had_room=had_room)
            except (ApiError, OSError, Disconnected) as error:
                self._pause(followed, error)
                continue
            if followed.position is not None and followed.flush_due:
                unflushed.append(followed)
            size += len(answer.data.records or b"")
            if size >= STEP_BYTES_MAX:
                size = 0
                await trio.lowlevel.checkpoint()
        if unflushed:
            async with trio.open_nursery() as nursery:
                for followed in unflushed:
                    nursery.start_soon(self._flush, followed)
        self._failures.log()

    async def _act(self, answer: FollowedAnswer[Followed], *, had_room: bool) -> None:
        followed, log = answer.partition, answer.partition.partition.log
        if log is None:
            return
        data, state = answer.data, log.state
        decision: FollowerDecision | None = decide(
            answer.asked, followed.position, data, state.epochs, state.log_start_offset, state.log_end_offset
        )
        if isinstance(decision, Store):
            # Without the pause after an error, the same bytes would be fetched again and again.
            if data.records and not decision.records:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the leader sent no whole batch of its leader epoch")
            if decision.restart is not None and not await self._begin_inside(followed, decision.restart):
                return
            if followed.store(decision, had_room=had_room):
                self._plan.note_change(followed.key)
            self._throttled.note_answer(followed, len(decision.records), decision.high_watermark, now_ms())
            self._failures.forget(followed.key)
        elif isinstance(decision, CutLog):
            await self._cut(followed, decision)
        elif decision is Pause.LOOK_UP:
            change = await after_range_of(self._link, self._node_id, followed)
            if change is not None:
                await self._cut(followed, change)
            else:
                self._plan.note_change(followed.key)
        elif decision is Pause.METADATA:
            # `Fetchers.follow` adds the partition again with newer metadata.
            self._plan.remove(followed.key)
        elif decision is Pause.BACKOFF:
            self._pause(followed, error_code(data.error_code))

    async def _begin_inside(self, followed: Followed, begin: Restart) -> bool:
        """Begin an empty log at the base offset of the leader's first batch. Return whether the batch may follow."""
        logger.info("%s: the log begins at offset %d, with the batch of its start %d", followed, *astuple(begin))
        await followed.cut(begin)
        self._plan.note_change(followed.key)
        position = followed.position
        return position is not None and position.offset == begin.offset

    async def _cut(self, followed: Followed, change: CutLog | Restart) -> None:
        end = followed.partition.log.log_end_offset if followed.partition.log else 0
        logger.info("%s: %s, from offset %d, as its leader %d has another log", followed, change, end, self.leader)
        await followed.cut(change)
        self._plan.note_change(followed.key)

    async def _flush(self, followed: Followed) -> None:
        try:
            await followed.flush()
        except ApiError as error:
            self._pause(followed, error)

    def _pause(self, followed: Followed, error: ErrorCode | Exception) -> None:
        """Fetch a partition again after the backoff.

        The backoff begins short, since a leader may receive the metadata a little later than its followers.
        """
        self._plan.remove(followed.key)
        if followed.position is None:
            return
        pauses = self._failures.note(followed, error, trio.current_time())
        ends_at = trio.current_time() + self._backoff_ms(pauses) / MS_PER_S
        heappush(self._paused, (ends_at, next(self._numbers), followed))

    def _backoff_ms(self, pauses: int) -> float:
        """Return how long to pause after this number of pauses in a row: 20 ms first, so that a leader that starts is
        fetched from soon."""
        return min(self._settings.backoff_ms, FIRST_PAUSE_MS << min(pauses, PAUSES_MAX))

    def _log_failure(self, error: Exception) -> None:
        logger.info("leader %d: a fetch failed: %s; %d partitions wait", self.leader, error, len(self._plan))


def now_ms() -> float:
    """Return the time of trio's clock in ms."""
    return trio.current_time() * MS_PER_S
