"""The fetches of all followers of this broker: their sessions, and the reads of their requests (KIP-227)."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.session import FetchedPartition, Fetching, SessionPartition, requested_partitions
from pykbroker.core.fetch.session_cache import FetchSessionCache
from pykbroker.core.replication.follower_state import UNKNOWN_BROKER_EPOCH
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.leading.follower_reading import FollowerReading
from pykbroker.replica.leading.follower_session import FollowerSession
from pykbroker.replica.leading.isr_keeper import IsrKeeper
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.partition.reading import failed
from pykbroker.replica.replicas import Replicas
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchRequest, ReplicaState


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

    def begin(self, request: FetchRequest, fetching: Fetching, follower: ReplicaState, bytes_max: int) -> FollowerFetch:
        """Return the read of a follower's request."""
        known = None if fetching.session is None else fetching.session.follower
        if isinstance(known, FollowerSession):
            session = known
            session.register(follower.replica_epoch)
            if session.broker_id in self._early:
                self._remove_outdated(session.broker_id)
            for topic in request.forgotten_topics_data:
                for index in topic.partitions:
                    session.forget((topic.topic_id if fetching.by_id else topic.topic, index))
            changed = [fetching.partitions[key] for key in requested_partitions(request, by_id=fetching.by_id)]
            changed += session.unlocated.values()
        else:
            session = FollowerSession(follower.replica_id, follower.replica_epoch, self._replicas.quotas.leader)
            changed = list(fetching.partitions.values())
            if fetching.session is not None:
                self._keep(session, fetching)
        keeps = fetching.opening or fetching.session is not None
        for wanted in changed:
            session.add(wanted, self._find(wanted, by_id=fetching.by_id), takes_over=keeps)
        return FollowerFetch(
            self, fetching, session, self._keeper, request.min_bytes, min(request.max_bytes, bytes_max)
        )

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
        return self._keeper.broker.registered.get(broker_id, UNKNOWN_BROKER_EPOCH)

    def _remove_outdated(self, broker_id: int) -> None:
        """Remove the sessions that a broker has left."""
        registered, kept, is_early = self._registered(broker_id), [], False
        for one in self._sessions.get(broker_id, ()):
            if one.session is None or one.session.is_removed:
                continue
            if one.is_empty or UNKNOWN_BROKER_EPOCH != one.broker_epoch < registered:
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


class FollowerFetch(FollowerReading):
    """The read of one Fetch request of a follower. The response, once it is known, keeps or closes its session."""

    def __init__(
        self,
        fetches: FollowerFetches,
        fetching: Fetching,
        session: FollowerSession,
        keeper: IsrKeeper,
        bytes_min: int,
        bytes_max: int,
    ) -> None:
        super().__init__(session, keeper, bytes_min, bytes_max)
        self._fetches, self._fetching = fetches, fetching

    def absent(self) -> list[FetchedPartition]:
        """Return the errors of the requested partitions that this broker does not have."""
        return self._fetches.unlocated(self.session, self._fetching) if self.session.unlocated else []

    def answered(self) -> None:
        """Count the records that the leader's quota measures, and keep or close the session."""
        self.record_throttled()
        self._fetches.opened(self.session, self._fetching)
