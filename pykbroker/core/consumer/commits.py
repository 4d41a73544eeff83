"""Commits of a consumer: the offsets to commit, OffsetCommit and OffsetFetch requests, and what their errors mean.

1. An error is retriable, or the member has lost its place in the group, or the user has to act. `CommitResult` says
   which, and whether the coordinator has to be looked up again.
2. A commit by a member of a group carries its generation or member epoch, so that a member that was replaced cannot
   move offsets back.
3. OffsetFetch requires stable offsets. Offsets of open transactions are asked for again (KIP-447).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from pykbroker.core.consumer.errors import CommitFailed, TopicsUnauthorized
from pykbroker.core.consumer.partition_state import FetchState
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition, indexes_by_topic
from wire.declare import NIL
from wire.error_codes import RETRIABLE, ErrorCode, error_code
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

TOPIC_IDS_VERSION = 10
"""The first version of OffsetCommit and OffsetFetch that names topics by topic id."""
_NO_COORDINATOR = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT}
_RETRY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    *_NO_COORDINATOR,
}
_RETRY_PARTITION = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNSTABLE_OFFSET_COMMIT}
"""The errors of single partitions for which a look-up is repeated, as by Kafka's consumer. Others fail it."""
_REPLACED = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}
_STALE = "the member epoch has changed since the commit was sent; poll again, and then commit again"
REMOVED = (
    "the group has removed the member, so its partitions may belong to another member by now; poll again to rejoin"
)

TopicId = Callable[[str], bytes]
"""A function that returns the id of a topic, or the nil id if it is unknown."""


class CommitIdentity(NamedTuple):
    """The group and the member that commits. The epoch is the generation of a classic member, or the member epoch.

    It is -1 without a membership, as after a manual assignment.
    """

    group_id: str
    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


class CommitResult(NamedTuple):
    """The result of an OffsetCommit or OffsetFetch request that failed as a whole. `error` is None for success.

    `is_removed` says that the member has to join the group again, with a new member id if `drops_member_id`. After
    REBALANCE_IN_PROGRESS, a classic member has to join again too, and the user commits again after the next poll.
    """

    error: Exception | None = None
    code: ErrorCode = ErrorCode.NONE
    is_retriable: bool = False
    drops_coordinator: bool = False
    is_removed: bool = False
    drops_member_id: bool = False


class OffsetsFetched(NamedTuple):
    """The committed offset of each partition in an OffsetFetch response, or None, and the result as a whole."""

    offsets: dict[TopicPartition, CommittedOffset | None]
    result: CommitResult


def consumed(subscription: ConsumerSubscription) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets to commit: the positions of all partitions whose position is valid."""
    found = {partition: subscription[partition] for partition in subscription.partitions}
    return {
        partition: CommittedOffset(state.position.offset, state.position.epoch)
        for partition, state in found.items()
        if state.position is not None and state.state is FetchState.FETCHING
    }


class AutoCommit:
    """The schedule of `enable.auto.commit`: one commit in `auto.commit.interval.ms` at most, and one at a time."""

    def __init__(self, interval_ms: float, now_ms: float) -> None:
        self._interval_ms, self.due_ms = interval_ms, now_ms + interval_ms
        self._is_in_flight = False

    def take(self, now_ms: float) -> bool:
        if self._is_in_flight or now_ms < self.due_ms:
            return False
        self._is_in_flight, self.due_ms = True, now_ms + self._interval_ms
        return True

    def done(self, result: CommitResult, now_ms: float, backoff_ms: float) -> None:
        """Note the result of a commit. After a retriable error it is tried again soon."""
        self._is_in_flight = False
        if result.is_retriable:
            self.due_ms = min(self.due_ms, now_ms + backoff_ms)

    def reset(self, now_ms: float) -> None:
        """Start the interval anew, after a rebalance."""
        self.due_ms = now_ms + self._interval_ms


def commit_request(
    identity: CommitIdentity, offsets: Mapping[TopicPartition, CommittedOffset], topic_id: TopicId
) -> tuple[OffsetCommitRequest, int | None]:
    """Return the request, and the last version that can be used, or None for any version."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, index), offset in offsets.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = OffsetCommitRequestTopic(name, topic_id(name), [])
        topic.partitions.append(OffsetCommitRequestPartition(index, offset.offset, offset.epoch, offset.metadata))
    request = OffsetCommitRequest(
        group_id=identity.group_id,
        generation_id_or_member_epoch=identity.epoch,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        topics=list(topics.values()),
    )
    has_ids = all(topic.topic_id != NIL for topic in topics.values())
    return request, None if has_ids else TOPIC_IDS_VERSION - 1


def commit_result(request: OffsetCommitRequest, response: OffsetCommitResponse) -> CommitResult:
    """Return the result of a commit. The first error of a partition decides, topics without authorization come last."""
    names = {topic.topic_id: topic.name for topic in request.topics if topic.topic_id != NIL}
    unauthorized = set()
    for topic in response.topics:
        for partition in topic.partitions:
            code = partition.error_code
            if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                unauthorized.add(names.get(topic.topic_id, topic.name))
            elif code:
                return _failed_commit(code)
    if unauthorized:
        return CommitResult(TopicsUnauthorized(unauthorized), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return CommitResult()


def _failed_commit(number: int) -> CommitResult:
    code = error_code(number)
    if code in _REPLACED:
        is_unknown = code is ErrorCode.UNKNOWN_MEMBER_ID
        return CommitResult(CommitFailed(REMOVED), code, is_removed=True, drops_member_id=is_unknown)
    if code is ErrorCode.STALE_MEMBER_EPOCH:
        return CommitResult(CommitFailed(_STALE), code)
    is_retriable = code in _RETRY
    return CommitResult(ApiError(code), code, is_retriable, code in _NO_COORDINATOR)


def fetch_offsets_request(
    identity: CommitIdentity, partitions: Collection[TopicPartition], topic_id: TopicId
) -> tuple[OffsetFetchRequest, int | None]:
    """Return the request for committed offsets, and the last version that can be used, or None for any version.

    The member id and epoch are sent only by members of groups of the consumer protocol: pass an identity without them
    otherwise.
    """
    topics = [
        OffsetFetchRequestTopics(name, topic_id(name), indexes)
        for name, indexes in indexes_by_topic(partitions).items()
    ]
    group = OffsetFetchRequestGroup(identity.group_id, identity.member_id or None, identity.epoch, topics)
    has_ids = all(topic.topic_id != NIL for topic in topics)
    return OffsetFetchRequest(groups=[group], require_stable=True), None if has_ids else TOPIC_IDS_VERSION - 1


def offsets_fetched(request: OffsetFetchRequest, response: OffsetFetchResponse) -> OffsetsFetched:
    """Return the offsets of a response from version 8 on."""
    asked = request.groups[0]
    group = next((each for each in response.groups if each.group_id == asked.group_id), None)
    if group is None:
        error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the response has no group {asked.group_id}")
        return OffsetsFetched({}, CommitResult(error, error.code))
    if group.error_code:
        return OffsetsFetched({}, _failed_fetch(group.error_code))
    names = {topic.topic_id: topic.name for topic in asked.topics or () if topic.topic_id != NIL}
    offsets: dict[TopicPartition, CommittedOffset | None] = {}
    unauthorized, retried = set(), ErrorCode.NONE
    for topic in group.topics:
        for each in topic.partitions:
            partition = TopicPartition(names.get(topic.topic_id, topic.name), each.partition_index)
            if each.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                unauthorized.add(partition.topic)
            elif each.error_code in _RETRY_PARTITION:
                retried = error_code(each.error_code)
            elif each.error_code:
                code = error_code(each.error_code)
                return OffsetsFetched({}, CommitResult(ApiError(code), code))
            else:
                found = CommittedOffset(each.committed_offset, each.committed_leader_epoch, each.metadata or "")
                offsets[partition] = found if found.offset >= 0 else None
    if unauthorized:
        error = TopicsUnauthorized(unauthorized)
        return OffsetsFetched({}, CommitResult(error, error.code))
    if retried:
        return OffsetsFetched({}, CommitResult(ApiError(retried), retried, True))
    return OffsetsFetched(offsets, CommitResult())


def _failed_fetch(number: int) -> CommitResult:
    code = error_code(number)
    is_removed = code is ErrorCode.UNKNOWN_MEMBER_ID
    is_retriable = code in RETRIABLE or code is ErrorCode.STALE_MEMBER_EPOCH
    return CommitResult(ApiError(code), code, is_retriable, code in _NO_COORDINATOR, is_removed, is_removed)
