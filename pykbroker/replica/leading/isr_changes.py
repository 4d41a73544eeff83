"""The sender of AlterPartition: all proposed changes of ISRs in one request, with one request in flight (KIP-497)."""

from __future__ import annotations

import logging
from typing import Protocol

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.isr_change import IsrAnswer, IsrChange
from pykbroker.core.topic_partition import TopicIdPartition
from pykbroker.replica.leading.isr_keeper import IsrKeeper
from pykbroker.replica.partition.partition import Partition
from pykbroker.world.portions import AT_ONCE_MAX
from wire.error_codes import ErrorCode, error_code
from wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)

logger = logging.getLogger(__name__)

RETRY_S = 0.05
"""The time between two requests after an error of a whole request, or a change that must be sent again."""


class PartitionAlterer(Protocol):
    """An interface that asks the active controller to change ISRs."""

    async def ask(self, request: AlterPartitionRequest, /) -> AlterPartitionResponse:
        """Send the request to the active controller, over lost connections and changes of the controller.

        Raise ApiError if the controller refuses the request as a whole.
        """


class IsrChanges:
    """The sender of the changes that the keeper of ISRs proposes."""

    def __init__(self, keeper: IsrKeeper, controller: PartitionAlterer) -> None:
        self._keeper, self._controller = keeper, controller

    async def run(self) -> None:
        """Send proposed changes until cancelled."""
        while True:
            changes = await self._keeper.take()
            if not await self._send({(one.topic_id, one.index): (one, change) for one, change in changes.items()}):
                await trio.sleep(RETRY_S)

    async def _send(self, changes: dict[TopicIdPartition, tuple[Partition, IsrChange]]) -> bool:
        """Send the changes, and apply the answers. Return whether every change was answered for good."""
        try:
            response = await self._controller.ask(self._request(changes))
            code = error_code(response.error_code)
        except ApiError as error:
            response, code = AlterPartitionResponse(), error.code
        if code is not ErrorCode.NONE:
            logger.warning("the controller refuses %d changes of ISRs: %s; retrying", len(changes), code.name)
        answers = {
            (topic.topic_id, answer.partition_index): answer for topic in response.topics for answer in topic.partitions
        }
        settled = True
        for place, (key, (partition, change)) in enumerate(changes.items(), 1):
            if place % AT_ONCE_MAX == 0:
                await trio.lowlevel.checkpoint()
            answer = answers.get(key)
            if code is not ErrorCode.NONE or answer is None:
                # After this error, `settle` proposes the change again.
                result = IsrAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                result = IsrAnswer(
                    error_code(answer.error_code), answer.leader_epoch, answer.partition_epoch, tuple(answer.isr)
                )
            if result.error is not ErrorCode.NONE and code is ErrorCode.NONE:
                logger.info("%s: the ISR %s was refused: %s", partition.key, change.members, result.error.name)
            settled &= not self._keeper.settle(partition, change, result)
        return settled

    def _request(self, changes: dict[TopicIdPartition, tuple[Partition, IsrChange]]) -> AlterPartitionRequest:
        topics: dict[bytes, AlterPartitionRequestTopicData] = {}
        for (topic_id, index), (_, change) in changes.items():
            topic = topics.setdefault(topic_id, AlterPartitionRequestTopicData(topic_id, []))
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=index,
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=[BrokerState(broker_id, epoch) for broker_id, epoch in change.isr],
                    partition_epoch=change.partition_epoch,
                )
            )
        broker = self._keeper.broker
        return AlterPartitionRequest(broker.node_id, broker.broker_epoch, list(topics.values()))
