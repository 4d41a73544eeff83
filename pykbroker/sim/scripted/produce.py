"""The answers of a scripted node to Produce."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordinator.admission import Admission
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.scripted.leadership import HINTED, log_of
from wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from wire.sentinels import NO_OFFSET

if TYPE_CHECKING:
    from pykbroker.sim.scripted.node import ScriptedNode


def append_all(
    node: ScriptedNode, request: ProduceRequest, admission: Admission | None = None
) -> ProduceResponse | None:
    """Append the batches of a Produce request. With acks=0, return None.

    `admission` has the verifications of a transactional request.
    """
    response = ProduceResponse()
    for topic in request.topic_data:
        answered = [
            _produce(node, node.state.named(topic.name, topic.topic_id, each.index), topic.topic_id, each, admission)
            for each in topic.partition_data
        ]
        response.responses.append(TopicProduceResponse(topic.name, topic.topic_id, answered))
    if any(each.error_code in HINTED for topic in response.responses for each in topic.partition_responses):
        response.node_endpoints = [NodeEndpoint(node_id, *address) for node_id, address in node.state.addresses.items()]
    return response if request.acks else None


def _produce(
    node: ScriptedNode,
    partition: TopicPartition | None,
    topic_id: bytes,
    data: PartitionProduceData,
    admission: Admission | None,
) -> PartitionProduceResponse:
    try:
        log = log_of(node, partition, topic_id)
        epoch = node.state.leader_epoch(partition)
        verification = None
        if admission is not None and partition is not None:
            if code := admission.refused.get(partition):
                raise ApiError(code)
            verification = admission.verifications.get(partition)
        base_offset = log.append(bytes(data.records or b""), epoch, verification)
    except ApiError as error:
        leader = LeaderIdAndEpoch()
        if error.code in HINTED:
            leader = LeaderIdAndEpoch(*node.state.leader_and_epoch(partition))
        message = error.message
        return PartitionProduceResponse(data.index, error.code, NO_OFFSET, error_message=message, current_leader=leader)
    return PartitionProduceResponse(data.index, 0, base_offset, log_start_offset=log.start_offset)
