"""The handlers for topics, their partitions, leaders and replica placement."""

from __future__ import annotations

from pykbroker.apis.controller_apis import ControllerHandler
from pykbroker.apis.topics.create_partitions import CreatePartitions
from pykbroker.apis.topics.create_topics import CreateTopics
from pykbroker.apis.topics.delete_topics import DeleteTopics
from pykbroker.apis.topics.describe_topic_partitions import DescribeTopicPartitions
from pykbroker.apis.topics.list_partition_reassignments import ListPartitionReassignments
from pykbroker.apis.topics.metadata import Metadata
from pykbroker.broker.parts import Parts
from pykbroker.server.answers import Answers
from pykbroker.server.handler import Handler
from wire.api import ApiKey


def topic_handlers(parts: Parts) -> list[Handler]:
    """Return the handlers of `apis.topics`."""
    controller, image, config = parts.controller, parts.image, parts.settings.config
    return [
        Metadata(
            node_id=parts.identity.node_id,
            cluster_id=parts.identity.cluster_id,
            image=image,
            automatic=parts.automatic_topics,
            endpoints=parts.endpoints,
            auto_create=config.auto_create_topics_enable,
            replicas=parts.replicas,
            answers=Answers(),
            controller=parts.controller_requests,
        ),
        DescribeTopicPartitions(
            image=image,
            partitions_max=config.max_request_partition_size_limit,
            node_id=parts.identity.node_id,
            replicas=parts.replicas,
            endpoints=parts.endpoints,
        ),
        CreateTopics(controller),
        DeleteTopics(controller, image, config.delete_topic_enable),
        CreatePartitions(controller),
        ControllerHandler(ApiKey.ELECT_LEADERS, controller),
        ControllerHandler(ApiKey.ALTER_PARTITION_REASSIGNMENTS, controller),
        ListPartitionReassignments(image),
    ]
