"""The fetches of all followers of this broker: their sessions, and the reads of their requests (KIP-227)."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.session import FetchedPartition, Fetching, SessionPartition, requested_partitions
from pykbroker.core.fetch.session_cache import FetchSessionCache
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.leading.follower_session import FollowerSession
from pykbroker.replica.leading.isr_keeper import IsrKeeper
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.partition.reading import Reading, failed
from pykbroker.replica.replicas import Replicas
from pykbroker.storage.log.log import Log
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchPartition, FetchRequest, PartitionData, ReplicaState
from wire.sentinels import NO_BROKER_EPOCH


class FollowerFetches:
    """The sessions of followers by broker id.

    A broker that opens a session has left those of its older broker epochs, and those without any partition. They are
    removed from the cache, whose slots they would take, and appends would cost time for each of them.
    """

    def __init__(self, replicas: Replicas, cache: FetchSessionCache, keeper: IsrKeeper) -> None:
        self._replicas, self._cache, self._keeper = replicas, cache, keeper
        self._sessions: dict[int, list[FollowerSession]] = {}
        self._early: set[int] = set()
        """The brokers with a session of a broker epoch that the metadata does not have yet."""

    def begin(
        self, request: FetchRequest, fetching: Fetching, follower: ReplicaState, bytes_max: int
    ) -> FollowerReading:
        """Bring the follower's session up to date, and return the read of its request."""
        known = None if fetching.session is None else fetching.session.follower
        if isinstance(known, FollowerSession):
            session = known
            session.register(follower.replica_epoch)
            # The metadata may have this broker epoch by now, which tells that sessions of older ones are left.
            if session.broker_id in self._early:
                self._remove_outdated(session.broker_id)
            for topic in request.forgotten_topics_data:
                for index in topic.partitions:
                    session.forget((topic.topic_id if fetching.by_id else topic.topic, index))
            named = requested_partitions(request, by_id=fetching.by_id)
            changed = [fetching.partitions[key] for key in named if key in fetching.partitions]  # unless also forgotten
            # The metadata with these partitions may have arrived since the last fetch.
            changed += session.unlocated.values()
        else:
            session = FollowerSession(follower.replica_id, follower.replica_epoch, self._replicas.quotas.leader)
            changed = list(fetching.partitions.values())
            if fetching.session is not None:
                self._keep(session, fetching)
        keeps = fetching.opening or fetching.session is not None
        for wanted in changed:
            session.add(wanted, self._find(wanted, by_id=fetching.by_id), takes_over=keeps)
        bytes_max = min(request.max_bytes, bytes_max)
        return FollowerReading(self, fetching, session, self._keeper, request.min_bytes, bytes_max)

    def opened(self, session: FollowerSession, fetching: Fetching) -> None:
        """Keep the session of a request whose response is known, or close it if the follower has no fetch session."""
        if fetching.session is None:
            session.close()
        elif session.session is None:
            self._keep(session, fetching)

    def unlocated(self, session: FollowerSession, fetching: Fetching) -> list[FetchedPartition]:
        """Return the errors of the requested partitions that this broker does not have."""
        return [(wanted, failed(wanted.asked, self._reason(wanted, fetching))) for wanted in session.unlocated.values()]

    def _keep(self, session: FollowerSession, fetching: Fetching) -> None:
        assert fetching.session is not None
        session.session, fetching.session.follower = fetching.session, session
        broker_id = session.broker_id
        self._remove_outdated(broker_id)
        self._sessions[broker_id] = [*self._sessions.get(broker_id, ()), session]
        if session.broker_epoch > self._registered(broker_id):
            self._early.add(broker_id)

    def _registered(self, broker_id: int) -> int:
        return self._keeper.broker.registered.get(broker_id, NO_BROKER_EPOCH)

    def _remove_outdated(self, broker_id: int) -> None:
        """Remove the sessions that a broker has left."""
        registered, kept, is_early = self._registered(broker_id), [], False
        for one in self._sessions.get(broker_id, ()):
            if one.session is None or one.session.is_removed:
                continue
            if one.is_empty or NO_BROKER_EPOCH != one.broker_epoch < registered:
                self._cache.remove(one.session)
                continue
            kept.append(one)
            is_early |= one.broker_epoch > registered
        self._sessions[broker_id] = kept
        if not is_early:
            self._early.discard(broker_id)

    def _find(self, wanted: SessionPartition, *, by_id: bool) -> Partition | None:
        try:
            topic = self._replicas.topic("" if by_id else wanted.topic, wanted.topic_id)
        except ApiError:
            return None
        wanted.topic = topic.name
        return topic.partitions.get(wanted.asked.partition)

    def _reason(self, wanted: SessionPartition, fetching: Fetching) -> ErrorCode:
        try:
            topic = self._replicas.topic("" if fetching.by_id else wanted.topic, wanted.topic_id)
        except ApiError as error:
            return error.code
        return self._replicas.why_absent(TopicPartition(topic.name, wanted.asked.partition))


class FollowerReading(Reading):
    """The read of the partitions of a follower's session that are due, up to the log end offset.

    The first read of a partition records the fetch, which acknowledges all records below its offset. The response, once
    it is known, keeps or closes the session.
    """

    __slots__ = ("_fetches", "_fetching", "_keeper", "_notes", "session")

    def __init__(
        self,
        fetches: FollowerFetches,
        fetching: Fetching,
        session: FollowerSession,
        keeper: IsrKeeper,
        bytes_min: int,
        bytes_max: int,
    ) -> None:
        super().__init__([], bytes_min, bytes_max)
        self._completes = False
        self._fetches, self._fetching, self.session, self._keeper = fetches, fetching, session, keeper
        self._notes = True

    @property
    def is_enough(self) -> bool:
        """Whether the follower must learn something at once, such as that this broker does not have a partition."""
        return bool(self.session.unlocated) or super().is_enough

    def results(self) -> list[FetchedPartition]:
        unlocated, found = self.session.unlocated, list(self._found.values())
        if not unlocated:
            return found
        present = [one for one in found if one[0].key not in unlocated]
        return present + self._fetches.unlocated(self.session, self._fetching)

    def answered(self) -> None:
        """Count the records that the leader's quota measures, and keep or close the session."""
        for partition, (_, data) in self._found.items():
            if data.records:
                self.session.record_throttled(partition, len(data.records))
        self._fetches.opened(self.session, self._fetching)

    def _begin(self) -> None:
        super()._begin()
        self.session.calm()
        self._located = list(self.session.due.items())
        if self._notes:
            self.session.fetched_ms = self._keeper.broker.now_ms

    def _log(self, partition: Partition, wanted: SessionPartition) -> Log:
        session, leader_epoch = self.session, wanted.asked.current_leader_epoch
        log = partition.require_leader(leader_epoch)
        self._keeper.follower(partition, session.broker_id, session.broker_epoch, leader_epoch)
        return log

    def _acknowledge(self, partition: Partition, asked: FetchPartition, log: Log) -> None:
        """Record the follower's fetch. Raise OFFSET_OUT_OF_RANGE, so that it acknowledges no offset outside the log."""
        session, offset = self.session, asked.fetch_offset
        if not log.state.log_start_offset <= offset <= log.state.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if self._notes:
            self._keeper.note_fetch(partition, session.broker_id, session.broker_epoch, offset, asked.log_start_offset)

    def _read_records(
        self, data: PartitionData, partition: Partition, asked: FetchPartition, log: Log, bytes_max: int
    ) -> None:
        """Read the records unless the follower is throttled. A partition with nothing more to say is no longer due."""
        session, offset, end = self.session, asked.fetch_offset, log.state.log_end_offset
        # Without room, a follower does not even get the first batch, as a consumer does.
        if offset < end and bytes_max > 0 and not session.is_throttled(partition):
            data.records = partition.read(offset, bytes_max, end, at_least_one=not self._size)
        if data.records or self._is_caught_up(partition, end):
            session.due.pop(partition, None)

    def _is_caught_up(self, partition: Partition, log_end_offset: int) -> bool:
        leading, broker_id = partition.leading, self.session.broker_id
        if leading is None or broker_id not in leading.isr:
            return False
        return leading.followers[broker_id].log_end_offset >= log_end_offset

    # ---- the wait

    def _watch(self) -> Callable[[], None]:
        """Return the function that ends the wait. The session has noted all appends since the read began."""
        return self.session.hurry

    async def _wait_for_more(self) -> None:
        """Wait for the first append, whatever its size."""
        await self.session.wait()

    def _take_back(self) -> None:
        """Make the partitions with records due again. What the others had to say is kept for the response."""
        session, self._notes = self.session, False
        for partition, (wanted, data) in list(self._found.items()):
            if data.records and partition in session:
                del self._found[partition]
                session.due[partition] = wanted
