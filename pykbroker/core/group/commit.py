"""OffsetCommit and TxnOffsetCommit: the check of the committing member, and the records of the offsets."""

from __future__ import annotations

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.errors import ApiError
from pykbroker.core.group.classic.group import ClassicGroup
from pykbroker.core.group.classic.rebalance import expect
from pykbroker.core.group.classic.state import ANSWERS, ClassicGroupState
from pykbroker.core.group.consumer.group import ConsumerGroup
from pykbroker.core.group.consumer.reconcile import Current
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.group.shard import Shard
from pykbroker.core.group.step import Step
from pykbroker.core.log.producers import Marker
from pykbroker.core.outcome import Token
from pykbroker.core.steps import Steps
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages import offset_commit as plain
from wire.messages import txn_offset_commit as txn
from wire.sentinels import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from wire.stored.group_offsets import OffsetCommitKey, OffsetCommitValue

GROUP_ID_NOT_FOUND_VERSION_FIRST = 9
VALUE_VERSION, EXPIRING_VALUE_VERSION = 4, 1
"""The version of the record that Kafka 4.3.1 writes, and the last version that has an expire timestamp."""
NO_RETENTION = -1
TIME_MS_MAX = 2**63 - 1
"""The largest timestamp of a record: 292 million years after 1970."""
CommittedPartition = plain.OffsetCommitRequestPartition | txn.TxnOffsetCommitRequestPartition


def commit(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> Steps[None]:
    """Commit each partition's offset. Only metadata that is too large is refused.

    A classic member's session is extended.
    """
    request: plain.OffsetCommitRequest = client_request.message
    group = shard.groups.get(request.group_id)
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation >= 0:
            newer = client_request.version >= GROUP_ID_NOT_FOUND_VERSION_FIRST
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND if newer else ErrorCode.ILLEGAL_GENERATION)
    elif isinstance(group, ConsumerGroup):
        check_consumer(shard, group, request, generation, client_request.version)
    elif isinstance(group, ClassicGroup):
        check_classic(group, request.member_id, request.group_instance_id, generation, transactional=False)
        member = group.members.get(request.member_id)
        if member is not None and group.state in (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE):
            expect(shard, group, member.id, member.session_timeout_ms, step)
    retention_ms = request.retention_time_ms
    expire_ms = NO_TIMESTAMP if retention_ms == NO_RETENTION else min(step.wall_ms + retention_ms, TIME_MS_MAX)
    response = plain.OffsetCommitResponse()
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            code = _write(shard, request.group_id, topic.name, topic.topic_id, partition, expire_ms, step)
            answers.append(plain.OffsetCommitResponsePartition(partition.partition_index, code))
            yield
        response.topics.append(plain.OffsetCommitResponseTopic(topic.name, topic.topic_id, answers))
    step.reply(token, response)


def commit_in_transaction(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> Steps[None]:
    """Commit offsets as part of a transaction.

    The offsets take effect when the transaction commits. The member's session is not extended.
    """
    request: txn.TxnOffsetCommitRequest = client_request.message
    group = shard.groups.get(request.group_id)
    if group is None:
        if request.generation_id >= 0:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    elif isinstance(group, ClassicGroup):
        check_classic(group, request.member_id, request.group_instance_id, request.generation_id, transactional=True)
    # Requests of old clients have no member: see `check_classic`.
    elif isinstance(group, ConsumerGroup) and (
        request.generation_id >= 0 or request.member_id or request.group_instance_id is not None
    ):
        check_consumer(shard, group, request, request.generation_id)
    response = txn.TxnOffsetCommitResponse()
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            code = _write(
                shard,
                request.group_id,
                topic.name,
                NIL,
                partition,
                -1,
                step,
                request.producer_id,
                request.producer_epoch,
            )
            answers.append(txn.TxnOffsetCommitResponsePartition(partition.partition_index, code))
            yield
        response.topics.append(txn.TxnOffsetCommitResponseTopic(topic.name, answers))
    step.reply(token, response)


def end_transaction(shard: Shard, marker: Marker, token: Token, step: Step) -> None:
    """Write a transaction marker, which applies or discards the transaction's offsets. The reply is None."""
    step.write(marker)
    step.reply(token, None)


def check_classic(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
) -> None:
    """Raise ApiError if the member may not commit now.

    A commit without member and generation, as from an admin client, needs an empty group. TxnOffsetCommit requests of
    old clients have no member and are accepted.
    """
    if generation < 0 and group.state is ClassicGroupState.EMPTY:
        return
    if generation >= 0 or member_id or instance_id is not None:
        group.check_current(member_id, instance_id, generation)
    elif not transactional:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if not transactional and (code := ANSWERS[group.state].commit):
        raise ApiError(code)


def check_consumer(
    shard: Shard,
    group: ConsumerGroup,
    request: plain.OffsetCommitRequest | txn.TxnOffsetCommitRequest,
    epoch: int,
    version: int | None = None,
) -> None:
    """Raise ApiError if the member may not commit now. `version` is that of OffsetCommit, or None for TxnOffsetCommit.

    An older epoch is accepted for partitions that the member has owned since then (KIP-1251).
    """
    # An admin client, or a consumer that assigns partitions to itself, is no member.
    if epoch < 0 and not group.members:
        return
    member = group.members.get(request.member_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    classic = member.classic_member_metadata is not None
    # Only from this version on clients know STALE_MEMBER_EPOCH (KIP-848).
    if not classic and version is not None and version < GROUP_ID_NOT_FOUND_VERSION_FIRST:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    has, topics = group.current.get(request.member_id, Current()), shard.topics().by_name
    if epoch != has.epoch and (
        epoch > has.epoch
        or not all(
            topic.name in topics and has.had(epoch, topics[topic.name].id, one.partition_index)
            for topic in request.topics
            for one in topic.partitions
        )
    ):
        illegal = classic or version is None
        raise ApiError(ErrorCode.ILLEGAL_GENERATION if illegal else ErrorCode.STALE_MEMBER_EPOCH)


def _write(
    shard: Shard,
    group_id: str,
    topic: str,
    topic_id: bytes,
    partition: CommittedPartition,
    expire_ms: int,
    step: Step,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> ErrorCode:
    metadata = partition.committed_metadata or ""
    if utf16_units(metadata) > shard.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=step.wall_ms,
        expire_timestamp=expire_ms,
        topic_id=topic_id,
    )
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition.partition_index)
    version = VALUE_VERSION if expire_ms < 0 else EXPIRING_VALUE_VERSION
    step.write(CoordinatorRecord(key, value, version, producer_id, producer_epoch))
    return ErrorCode.NONE


def utf16_units(text: str) -> int:
    """Return a string's length in UTF-16 units. Kafka compares this length with offset.metadata.max.bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
