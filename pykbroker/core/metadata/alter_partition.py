"""AlterPartition (KIP-497, 704, 841, 903): a leader changes the ISR of its partitions, or has recovered.

1. A request is refused as a whole if its broker epoch is old. Each partition then has its own result.
2. Epochs decide who is behind: a leader with a newer epoch than ours has seen another controller (NOT_CONTROLLER); a
   leader with an older one is refused.
3. A new member of the ISR must be active, and registered with the broker epoch that the leader saw when the member had
   caught up. After an unclean restart its log may be shorter. Its log directory must be online, which Kafka does not
   check: the leader may fail at once, and a replica in a directory that is not online could not be elected.
4. The change may complete a reassignment, which may elect another leader. The change is then made,
   and the response is NEW_LEADER_ELECTED.
"""

from __future__ import annotations

from pykbroker.core.metadata.context import ControllerContext, Deciding
from pykbroker.core.metadata.election import Rules
from pykbroker.core.metadata.image import PartitionImage, TopicImage
from pykbroker.core.metadata.partition_change import ReplicaAssignment, change
from pykbroker.core.metadata.record import Record
from pykbroker.core.metadata.replay import NO_LEADER_CHANGE, merge
from wire.error_codes import ErrorCode
from wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)
from wire.sentinels import NO_BROKER_EPOCH

RECOVERED, RECOVERING = 0, 1


def alter_partition(context: ControllerContext, request: AlterPartitionRequest) -> Deciding:
    """Return the metadata records and the response. Raise ApiError STALE_BROKER_EPOCH for the whole request."""
    context.registered(request.broker_id, request.broker_epoch)
    records: list[Record] = []
    topics = []
    for wanted in request.topics:
        topic = context.draft.topics.get(wanted.topic_id)
        rules = None if topic is None else context.rules(topic.name)
        partitions = []
        for data in wanted.partitions:
            if topic is None or rules is None:
                answer = _refused(data, ErrorCode.UNKNOWN_TOPIC_ID)
            else:
                answer = _alter(context, request.broker_id, topic, rules, data, records)
            partitions.append(answer)
            yield
        topics.append(AlterPartitionResponseTopicData(topic_id=wanted.topic_id, partitions=partitions))
    return records, AlterPartitionResponse(topics=topics)


def _alter(
    context: ControllerContext,
    sender: int,
    topic: TopicImage,
    rules: Rules,
    data: AlterPartitionRequestPartitionData,
    records: list[Record],
) -> AlterPartitionResponsePartitionData:
    """Add the record of the change of one partition, and return its result."""
    index = data.partition_index
    partition = topic.partitions.get(index)
    if partition is None:
        return _refused(data, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    members = data.new_isr_with_epochs or [BrokerState(broker_id, NO_BROKER_EPOCH) for broker_id in data.new_isr]
    fault = epoch_fault(partition, sender, data) or isr_fault(context, partition, members, data.leader_recovery_state)
    if fault:
        return _refused(data, fault)
    assignment = ReplicaAssignment(
        partition.replicas, tuple(member.broker_id for member in members), partition.adding, partition.removing
    )
    recovered = data.leader_recovery_state == RECOVERED
    record = change(context, topic, index, assignment, rules, recovered=recovered)
    if record is not None:
        records.append(record)
        partition = merge(partition, record)
        # The change has completed a reassignment that removes the sender. The record counts, and the error tells the
        # sender that it leads no longer.
        if record.leader not in (NO_LEADER_CHANGE, sender):
            return _refused(data, ErrorCode.NEW_LEADER_ELECTED)
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=RECOVERING if partition.recovering else RECOVERED,
        partition_epoch=partition.partition_epoch,
    )


def _refused(data: AlterPartitionRequestPartitionData, code: ErrorCode) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(partition_index=data.partition_index, error_code=code)


def epoch_fault(partition: PartitionImage, sender: int, data: AlterPartitionRequestPartitionData) -> ErrorCode | None:
    """Return why the sender's view of the partition is not current, or None."""
    if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
        # The broker has metadata that this controller lacks, so that a newer controller must be active.
        return ErrorCode.NOT_CONTROLLER
    if data.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if sender != partition.leader:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.INVALID_UPDATE_VERSION if data.partition_epoch < partition.partition_epoch else None


def isr_fault(
    context: ControllerContext, partition: PartitionImage, members: list[BrokerState], recovery_state: int
) -> ErrorCode | None:
    """Return why the partition cannot have this ISR, or None."""
    ids = [member.broker_id for member in members]
    recovering = recovery_state != RECOVERED
    if (
        len(set(ids)) < len(ids)
        or not set(ids) <= set(partition.replicas)
        or partition.leader not in ids
        or (recovering and (len(ids) > 1 or not partition.recovering))
    ):
        return ErrorCode.INVALID_REQUEST
    return None if all(_eligible(context, partition, member) for member in members) else ErrorCode.INELIGIBLE_REPLICA


def _eligible(context: ControllerContext, partition: PartitionImage, member: BrokerState) -> bool:
    broker = context.broker(member.broker_id)
    return (
        broker is not None
        and context.usable(partition, member.broker_id)
        # A broker that restarted since its last fetch may have lost what it had fetched (KIP-903).
        and member.broker_epoch in (NO_BROKER_EPOCH, broker.epoch)
    )
