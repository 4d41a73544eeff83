"""Fetch (1), v4-18: return record batches as stored, from given offsets; wait for `min_bytes` up to `max_wait_ms`.

v4 isolation level, aborted transactions (KIP-98)   v5 log start offset   v7 sessions (KIP-227)
v9 leader epoch checked (KIP-320)   v11 rack (KIP-392)   v12 flexible, diverging epoch
v13 topic ids (KIP-516)   v15 replica state (KIP-903)   v16 node endpoints (KIP-951)   v17 directory id (KIP-853)
v18 high watermark of the follower (KIP-1166)
A waiting Fetch is answered as soon as a request of another API arrives on its connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable

from pykbroker.apis.records.fetch.locate import ReadRights
from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.session import FetchedPartition, Fetching
from pykbroker.core.fetch.session_cache import FetchSessionCache
from pykbroker.core.security.rights import FETCH_AS_FOLLOWER, may
from pykbroker.core.steps import Steps
from pykbroker.replica.leading.follower_fetches import FollowerFetches
from pykbroker.replica.leading.read_replica import RackAwareSelector
from pykbroker.replica.partition.consumer_reading import ConsumerReading
from pykbroker.replica.partition.reading import Located, Reading
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext
from pykbroker.server.leader_hints import WRONG_LEADER, LeaderHints
from pykbroker.world.disk import NotCached
from pykbroker.world.portions import portions
from wire.error_codes import ErrorCode
from wire.isolation import READ_COMMITTED
from wire.messages.fetch import FetchRequest, FetchResponse, LeaderIdAndEpoch, NodeEndpoint, ReplicaState

AT_ONCE_MAX = 256
"""The number of partitions read in one step of the event loop."""
FOLLOWED_AT_ONCE_MAX = 64
"""The number of a follower's partitions that are read in one step of the event loop."""
COMPLETING = frozenset((ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER))
"""The errors of partitions that are not on this broker which are answered at once, as in Kafka.

Next to other partitions, an unknown topic or partition and a missing right wait for records of the others.
"""
RACK_VERSION_FIRST = 11
BY_ID_VERSION_FIRST = 13
REPLICA_STATE_VERSION_FIRST = 15
LEADER_VERSION_FIRST = 16


class Fetch(ApiHandler, frozen=True):
    """A handler that caps responses at `fetch_bytes_max` (fetch.max.bytes). `ticks_ns` is a monotonic clock."""

    rights: ReadRights
    sessions: FetchSessionCache
    ticks_ns: Callable[[], int]
    fetch_bytes_max: int
    hints: LeaderHints
    followers: FollowerFetches
    selector: RackAwareSelector | None = None

    def __call__(self, context: RequestContext, request: FetchRequest) -> Answer:
        version = context.version
        state = request if version < REPLICA_STATE_VERSION_FIRST else request.replica_state
        from_follower = state.replica_id >= 0
        try:
            fetching = self.sessions.begin(
                request, by_id=version >= BY_ID_VERSION_FIRST, privileged=from_follower, now_ms=self._now_ms()
            )
        except ApiError as error:
            return FetchResponse(error_code=error.code)
        if from_follower:
            if may(context, FETCH_AS_FOLLOWER):
                context.from_node = True
                return self._answer_follower(context, request, fetching)
            fetching.opening = False  # a session of a follower, which no limit of partitions applies to, is not opened
        if len(fetching.partitions) > AT_ONCE_MAX:
            return Later(self._answer_many(context, request, fetching), holds_connection=True)
        located, absent = self.rights.locate(context, fetching, fetching.partitions.values())
        return self._read(context, request, fetching, self._reading_of_consumer(context, request, located, absent))

    # ---- who asks: a consumer or a follower

    def _answer_many(self, context: RequestContext, request: FetchRequest, fetching: Fetching) -> Steps[Answer]:
        """Answer a consumer with many partitions, so that other tasks run between portions of them."""
        located: Located = []
        absent: list[FetchedPartition] = []
        basis = context.session.basis
        for few in portions(fetching.partitions.values()):
            here, elsewhere = self.rights.locate(context, fetching, few)
            located += here
            absent += elsewhere
            yield
        reading = self._reading_of_consumer(context, request, located, absent)
        return (yield from self._read_in_steps(context, request, fetching, reading, basis))

    def _reading_of_consumer(
        self, context: RequestContext, request: FetchRequest, located: Located, absent: list[FetchedPartition]
    ) -> Reading:
        selector, rack = self.selector, request.rack_id
        return ConsumerReading(
            located,
            request.min_bytes,
            min(request.max_bytes, self.fetch_bytes_max),
            committed_only=request.isolation_level == READ_COMMITTED,
            from_followers=context.version >= RACK_VERSION_FIRST,
            prefer=selector.within(rack) if selector is not None and rack else None,
            absent=absent,
            completes=bool(absent) and any(data.error_code in COMPLETING for _, data in absent),
        )

    def _answer_follower(self, context: RequestContext, request: FetchRequest, fetching: Fetching) -> Answer:
        """Return the response to a follower, whose fetch acknowledges all records below its offsets."""
        older = context.version < REPLICA_STATE_VERSION_FIRST
        follower = ReplicaState(request.replica_id) if older else request.replica_state
        reading = self.followers.begin(request, fetching, follower, self.fetch_bytes_max)
        if len(reading.session.due) > FOLLOWED_AT_ONCE_MAX:
            reads = self._read_in_steps(context, request, fetching, reading, context.session.basis)
            return Later(reads, holds_connection=True)
        return self._read(context, request, fetching, reading)

    # ---- read, wait, answer

    def _read(self, context: RequestContext, request: FetchRequest, fetching: Fetching, reading: Reading) -> Answer:
        basis = context.session.basis
        try:
            reading.read()
        except NotCached:
            return self._finish_later(context, fetching, reading, reading.read_patiently(), basis)
        return self._answer_or_wait(context, request, fetching, reading, basis)

    def _read_in_steps(
        self, context: RequestContext, request: FetchRequest, fetching: Fetching, reading: Reading, basis: Hashable
    ) -> Steps[Answer]:
        """Read in steps. `basis` is what the rights of the client were found by."""
        try:
            yield from reading.read_in_steps()
        except NotCached:
            return self._finish_later(context, fetching, reading, reading.read_patiently(), basis)
        return self._answer_or_wait(context, request, fetching, reading, basis)

    def _answer_or_wait(
        self, context: RequestContext, request: FetchRequest, fetching: Fetching, reading: Reading, basis: Hashable
    ) -> Answer:
        """Return the response if enough was found, otherwise the coroutine that waits for more."""
        if reading.is_enough or request.max_wait_ms <= 0:
            return self._answer(context, fetching, reading, reading.results())
        context.hurry, wait = reading.begin_wait(request.max_wait_ms)
        return self._finish_later(context, fetching, reading, wait, basis)

    def _finish_later(
        self, context: RequestContext, fetching: Fetching, reading: Reading, work: Awaitable[None], basis: Hashable
    ) -> Later:
        return Later(self._finish(context, fetching, reading, work, basis), holds_connection=False)

    async def _finish(
        self, context: RequestContext, fetching: Fetching, reading: Reading, work: Awaitable[None], basis: Hashable
    ) -> FetchResponse:
        await work
        found = reading.results()
        if context.session.basis != basis:  # the client chooses how long it waits, and may have lost a right meanwhile
            found = self.rights.still_readable(context, fetching, found)
        return self._answer(context, fetching, reading, found)

    def _answer(
        self, context: RequestContext, fetching: Fetching, reading: Reading, found: list[FetchedPartition]
    ) -> FetchResponse:
        response = self.sessions.open(fetching, found, self._now_ms()) if fetching.opening else fetching.answer(found)
        if context.version >= LEADER_VERSION_FIRST:
            self._tell_leaders(context, found, response)
        reading.answered()
        return response

    def _tell_leaders(self, context: RequestContext, found: list[FetchedPartition], response: FetchResponse) -> None:
        """Add the current leaders of partitions that this broker does not lead, and their endpoints (KIP-951)."""
        endpoints = {}
        for wanted, data in found:
            if data.error_code not in WRONG_LEADER:
                continue
            hint = self.hints.find(wanted.topic, wanted.asked.partition, context.session)
            if hint is not None:
                data.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
                if hint.endpoint is not None:
                    endpoints[hint.leader_id] = NodeEndpoint(*hint.endpoint)
        if endpoints:
            response.node_endpoints = list(endpoints.values())

    def _now_ms(self) -> int:
        return self.ticks_ns() // 1_000_000
