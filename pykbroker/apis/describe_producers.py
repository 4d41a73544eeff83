"""DescribeProducers (61), v0: who writes to a partition with a producer id, and whose transaction is open (KIP-664)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import ClassVar

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.names import check_topic_name
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.permissions import permitted
from pykbroker.core.steps import each
from pykbroker.replica.replicas import Replicas
from pykbroker.server.handler import Context, Steps
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.describe_producers import (
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState, TopicRequest, TopicResponse,
)  # fmt: skip


class DescribeProducers(msgspec.Struct, frozen=True):
    """What this broker's log remembers; a producer that wrote nothing for producer.id.expiration.ms is forgotten."""

    key: ClassVar = ApiKey.DESCRIBE_PRODUCERS
    versions: ClassVar[str] = "0"
    image: Callable[[], MetadataImage]
    replicas: Replicas
    authorizer: Authorizer

    def __call__(self, context: Context, request: DescribeProducersRequest) -> Steps:
        response = DescribeProducersResponse()
        for topic in request.topics:
            partitions = yield from self._partitions(context, topic)
            response.topics.append(TopicResponse(topic.name, partitions))
        return response

    def refuse(self, request: DescribeProducersRequest, code: ErrorCode) -> DescribeProducersResponse:
        """The same error for every partition."""
        return DescribeProducersResponse(topics=[
            TopicResponse(topic.name, [PartitionResponse(index, code) for index in topic.partition_indexes])
            for topic in request.topics
        ])  # fmt: skip

    def _partitions(self, context: Context, topic: TopicRequest) -> Generator[None, None, list[PartitionResponse]]:
        try:
            self._check_topic(context, topic.name)
        except ApiError as error:
            return [PartitionResponse(index, error.code, error.message) for index in topic.partition_indexes]
        return (yield from each(partial(self._partition, topic.name), topic.partition_indexes))

    def _check_topic(self, context: Context, name: str) -> None:
        check_topic_name(name)
        if not permitted(self.authorizer, context.principal, self.key, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
        if name not in self.image().topics.by_name:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")

    def _partition(self, topic: str, index: int) -> PartitionResponse:
        try:
            log = self.replicas.partition(topic, index).require_leader()
        except ApiError as error:
            return PartitionResponse(index, error.code)
        return PartitionResponse(index, active_producers=[
            ProducerState(
                producer.producer_id, producer.epoch, producer.last_sequence, producer.last_timestamp,
                producer.coordinator_epoch, producer.txn_first_offset,
            )
            for producer in log.producers.entries()
        ])  # fmt: skip
