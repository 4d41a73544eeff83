"""DescribeTopicPartitions (75), v0: describe topics page by page, with their eligible leader replicas (KIP-966).

Topics are sorted by name; the cursor names the first partition of the next page.
Lists are empty, never null: Java clients of 3.9 fail on null.
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import MetadataImage, TopicImage
from pykbroker.core.names import check_topic_name, is_internal
from pykbroker.core.security.authorizer import authorized_operations
from pykbroker.core.security.operation import ResourceType
from pykbroker.core.security.rights import (
    DESCRIBE_TOPIC_PARTITIONS_ALL_TOPICS,
    DESCRIBE_TOPIC_PARTITIONS_TOPIC,
    allowed_in_steps,
)
from pykbroker.core.steps import Steps
from pykbroker.replica.replicas import Replicas
from pykbroker.server.endpoints import BrokerEndpoints, ReachableBrokers
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext
from wire.error_codes import ErrorCode
from wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from wire.sentinels import NO_LEADER


class DescribeTopicPartitions(ApiHandler, frozen=True):
    """A handler that limits a page to `partitions_max` partitions (max.request.partition.size.limit).

    A request may lower the limit.
    """

    image: Callable[[], MetadataImage]
    partitions_max: int
    node_id: int
    replicas: Replicas
    endpoints: BrokerEndpoints

    def __call__(self, context: RequestContext, request: DescribeTopicPartitionsRequest) -> Later:
        return Later(self._steps(context, request), holds_connection=True)

    def _steps(self, context: RequestContext, request: DescribeTopicPartitionsRequest) -> Steps[Answer]:
        image, cursor = self.image(), request.cursor
        asked = sorted({topic.name for topic in request.topics} or image.topics.by_name)
        if cursor is not None:
            if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in asked):
                raise ApiError(ErrorCode.INVALID_REQUEST, "The cursor is not among the requested topics.")
            asked = [name for name in asked if name >= cursor.topic_name]
        right = DESCRIBE_TOPIC_PARTITIONS_TOPIC if request.topics else DESCRIBE_TOPIC_PARTITIONS_ALL_TOPICS
        shown = yield from allowed_in_steps(context, right, dict.fromkeys(asked))
        response = DescribeTopicPartitionsResponse()
        left = max(1, min(request.response_partition_limit, self.partitions_max))
        brokers = self.endpoints.reachable(context.session)
        for name in asked:
            if name not in shown:
                continue
            first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
            if left <= 0:
                response.next_cursor = Cursor(topic_name=name, partition_index=first)
                break
            topic = image.topics.by_name.get(name)
            described = failed(name, missing(name))
            if topic is not None:
                described = self._described(topic, first, first + left, brokers)
            described.topic_authorized_operations = authorized_operations(
                context.session, self.key, ResourceType.TOPIC, name
            )
            response.topics.append(described)
            yield
            left -= max(0, len(topic.partitions) - first) if topic is not None else 0
            if topic is not None and left < 0:
                response.next_cursor = Cursor(topic_name=name, partition_index=len(topic.partitions) + left)
                break
        if request.topics:
            response.topics += [
                DescribeTopicPartitionsResponseTopic(right.code, name) for name in asked if name not in shown
            ]
        return response

    def _described(
        self, topic: TopicImage, first: int, end: int, brokers: ReachableBrokers
    ) -> DescribeTopicPartitionsResponseTopic:
        """Describe the partitions from `first` to `end`. One without a leader has no error, as in Kafka."""
        offline, own = self.replicas.offline(topic.id), self.node_id
        return DescribeTopicPartitionsResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=is_internal(topic.name),
            partitions=[
                DescribeTopicPartitionsResponsePartition(
                    partition_index=index,
                    leader_id=NO_LEADER if leader == own and index in offline else leader,
                    leader_epoch=partition.leader_epoch,
                    replica_nodes=list(partition.replicas),
                    isr_nodes=list(partition.isr),
                    eligible_leader_replicas=list(partition.elr),
                    last_known_elr=list(partition.last_known_elr),
                    offline_replicas=brokers.offline_replicas(partition, own if index in offline else None),
                )
                for index, partition in sorted(topic.partitions.items())
                if first <= index < end
                for leader, _ in (brokers.leader(partition),)
            ],
        )


def missing(name: str) -> ErrorCode:
    """Return the error for a topic that does not exist: an invalid name, or an unknown topic."""
    try:
        check_topic_name(name)
    except ApiError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def failed(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    """Return an error result without partitions."""
    return DescribeTopicPartitionsResponseTopic(name=name, error_code=code, is_internal=is_internal(name))
