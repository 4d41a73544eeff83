"""The fetches of all followers of this broker: their sessions, and the reads of their requests (KIP-227)."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.session import FetchedPartition, Fetching, SessionPartition, requested_partitions
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.follower_reading import FollowerReading
from pykbroker.replica.follower_session import FollowerSession
from pykbroker.replica.partition import Partition
from pykbroker.replica.reading import failed
from pykbroker.replica.replicas import Replicas
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchRequest, ReplicaState


class FollowerFetches:
    """The sessions of followers by broker id. A session that the cache has evicted is closed with the next new one."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._sessions: dict[int, list[FollowerSession]] = {}

    def begin(
        self, request: FetchRequest, fetching: Fetching, follower: ReplicaState, bytes_max: int
    ) -> FollowerReading:
        """Return the read of a follower's request. `opened` must be called after its response is known."""
        known = None if fetching.session is None else fetching.session.follower
        if isinstance(known, FollowerSession):
            session = known
            session.register(follower.replica_epoch)
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
        for wanted in changed:
            session.add(wanted, self._find(wanted, by_id=fetching.by_id))
        return FollowerReading(session, self._replicas.keeper, request.min_bytes, min(request.max_bytes, bytes_max))

    def opened(self, reading: FollowerReading, fetching: Fetching) -> None:
        """Keep the session of a request whose response is known, or close it if the follower has no fetch session."""
        session = reading.session
        reading.record_throttled()
        if fetching.session is None:
            session.close()
        elif session.session is None:
            self._keep(session, fetching)

    def unlocated(self, reading: FollowerReading, fetching: Fetching) -> list[FetchedPartition]:
        """Return the errors of the requested partitions that this broker does not have."""
        return [
            (wanted, failed(wanted.asked, self._reason(wanted, fetching)))
            for wanted in reading.session.unlocated.values()
        ]

    def _keep(self, session: FollowerSession, fetching: Fetching) -> None:
        assert fetching.session is not None
        session.session, fetching.session.follower = fetching.session, session
        kept = []
        for other in self._sessions.get(session.broker_id, []):
            if other.session is None or other.session.is_removed:
                other.close()
            else:
                kept.append(other)
        self._sessions[session.broker_id] = [*kept, session]

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
