"""DescribeProducers (61), v0: return the active producers of a partition and their open transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from pykbroker.core.errors import ApiError, default_error
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.names import check_topic_name
from pykbroker.core.security.rights import DESCRIBE_PRODUCERS_TOPIC, may
from pykbroker.core.steps import Steps, each
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.replicas import Replicas
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext
from pykbroker.world.portions import portions
from wire.error_codes import ErrorCode
from wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


class DescribeProducers(ApiHandler, frozen=True):
    """A handler that reads producer state from this broker's log.

    The log forgets a producer that has been idle for producer.id.expiration.ms. A repeated partition is answered once:
    otherwise a request of 1 MB could ask for gigabytes.
    """

    image: Callable[[], MetadataImage]
    replicas: Replicas

    def __call__(self, context: RequestContext, request: DescribeProducersRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)

    def _steps(self, context: RequestContext, request: DescribeProducersRequest) -> Steps[Answer]:
        response = DescribeProducersResponse()
        for name, indexes in by_topic(request).items():
            partitions = yield from self._partitions(context, name, indexes)
            response.topics.append(TopicResponse(name, partitions))
            yield
        return response

    def _partitions(
        self, context: RequestContext, topic: str, indexes: Iterable[int]
    ) -> Steps[list[PartitionResponse]]:
        try:
            self._check_topic(context, topic)
        except ApiError as error:
            return (
                yield from each(partial(PartitionResponse, error_code=error.code, error_message=error.message), indexes)
            )
        found = []
        for index in indexes:
            found.append((yield from self._partition(TopicPartition(topic, index))))
            yield
        return found

    def _check_topic(self, context: RequestContext, name: str) -> None:
        check_topic_name(name)
        if not may(context, DESCRIBE_PRODUCERS_TOPIC, name):
            raise default_error(DESCRIBE_PRODUCERS_TOPIC.code)
        if name not in self.image().topics.by_name:
            raise default_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _partition(self, key: TopicPartition) -> Steps[PartitionResponse]:
        try:
            log = self.replicas.partition(key).require_leader()
        except ApiError as error:
            return PartitionResponse(key.partition, error.code)
        response = PartitionResponse(key.partition)
        for few in portions(log.producers.entries()):
            response.active_producers += [
                ProducerState(
                    producer.producer_id,
                    producer.epoch,
                    producer.last_sequence,
                    producer.last_timestamp,
                    producer.coordinator_epoch,
                    producer.txn_first_offset,
                )
                for producer in few
            ]
            yield
        return response


def by_topic(request: DescribeProducersRequest) -> dict[str, dict[int, None]]:
    """Return the partitions of each topic, in the order of the request."""
    indexes: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        indexes.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return indexes
