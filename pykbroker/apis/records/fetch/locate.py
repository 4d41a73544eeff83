"""The first step of a Fetch: find the partitions that the client may read here, and the errors of all others."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.session import FetchedPartition, Fetching, SessionPartition
from pykbroker.core.security.rights import FETCH_AS_FOLLOWER, FETCH_TOPIC, may
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.partition.reading import Located, failed
from pykbroker.replica.replicas import Replicas
from pykbroker.server.handler import RequestContext
from wire.error_codes import ErrorCode


class ReadRights(msgspec.Struct, frozen=True):
    """The topics that a client may read, and the replicas of this broker."""

    replicas: Replicas

    def locate(
        self, context: RequestContext, fetching: Fetching, asked_for: Iterable[SessionPartition]
    ) -> tuple[Located, list[FetchedPartition]]:
        """Return the partitions that this client may read here, and error results for all others.

        A client that asks as a follower and may not follow has no right to any topic.
        """
        located: Located = []
        absent: list[FetchedPartition] = []
        topic, allowed = None, True
        for wanted in asked_for:
            partition = wanted.replica
            if partition is None or not partition.is_leader:  # a replica that leads is never out of date
                partition = self._look_up(wanted, by_id=fetching.by_id)
            if wanted.topic != topic:
                topic = wanted.topic
                allowed = not fetching.privileged and may_read(context, topic)
                if partition is not None and allowed:
                    partition.traffic.fetches += 1
            if partition is not None and allowed:
                located.append((partition, wanted))
            else:
                absent.append(
                    (wanted, failed(wanted.asked, self._reason(wanted, by_id=fetching.by_id, allowed=allowed)))
                )
        return located, absent

    def still_readable(
        self, context: RequestContext, fetching: Fetching, found: list[FetchedPartition]
    ) -> list[FetchedPartition]:
        """Return the results, with an error for each partition that the client may not read any more."""
        context.decisions = None
        may_follow = fetching.privileged and may(context, FETCH_AS_FOLLOWER)
        return [
            (wanted, data)
            if may_follow or (not fetching.privileged and may_read(context, wanted.topic))
            else (wanted, failed(wanted.asked, FETCH_TOPIC.code))
            for wanted, data in found
        ]

    def _look_up(self, wanted: SessionPartition, *, by_id: bool) -> Partition | None:
        """Find the partition in the current metadata and store it in the session. Return None if it does not exist."""
        partition: Partition | None = None
        try:
            topic = self.replicas.topic("" if by_id else wanted.topic, wanted.topic_id)
            wanted.topic, partition = topic.name, topic.partitions.get(wanted.asked.partition)
        except ApiError:
            pass  # `_reason` finds the error
        wanted.replica = partition
        return partition

    def _reason(self, wanted: SessionPartition, *, by_id: bool, allowed: bool) -> ErrorCode:
        """Return the error for a partition that cannot be read.

        INCONSISTENT_TOPIC_ID means that the session has the topic under an id that now belongs to another topic.

        A broker without a replica does not check the client's leader epoch: only NOT_LEADER_OR_FOLLOWER names the
        leader.
        """
        if not allowed:
            return FETCH_TOPIC.code
        if by_id and not wanted.topic:
            return ErrorCode.UNKNOWN_TOPIC_ID
        try:
            self.replicas.partition(TopicPartition(wanted.topic, wanted.asked.partition))
        except ApiError as error:
            return error.code
        return ErrorCode.INCONSISTENT_TOPIC_ID if wanted.replica is None else ErrorCode.NOT_LEADER_OR_FOLLOWER


def may_read(context: RequestContext, topic: str) -> bool:
    """Whether the client may read the topic. An unknown topic id has no name to authorize, and is allowed here."""
    return not topic or may(context, FETCH_TOPIC, topic)
