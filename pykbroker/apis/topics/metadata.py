"""Metadata (3), v0-13: return the brokers, the controller, and topics with their leaders; create topics if allowed.

v0 an empty list means all topics, only reachable replicas, REPLICA_NOT_AVAILABLE if one is missing
v1 null means all, all replicas, controller id, rack, internal   v2 cluster id   v3 throttle time
v4 the client may forbid auto-creation (KIP-204)   v5 offline replicas (KIP-112)   v6 LISTENER_NOT_FOUND (KIP-226)
v7 leader epoch
v8 authorized operations (KIP-430)   v9 flexible   v10 topic ids (KIP-516)   v11 no cluster operations
v12 topics by id   v13 top-level error
An auto-created topic is available when the response is sent, unless the controller is away.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.create_topics import PARTITIONS_MAX
from pykbroker.core.metadata.image import MetadataImage, TopicImage, TopicsImage
from pykbroker.core.names import check_topic_name, is_internal
from pykbroker.core.security.authorizer import authorized_operations, cluster_operations
from pykbroker.core.security.operation import ResourceType
from pykbroker.core.security.rights import (
    METADATA_ALL_TOPICS,
    METADATA_CLUSTER_OPERATIONS,
    METADATA_CREATION,
    METADATA_TOPIC,
    allowed_in_steps,
    may,
)
from pykbroker.core.steps import Steps
from pykbroker.quorum.automatic_topics import AutomaticTopics
from pykbroker.replica.replicas import Replicas
from pykbroker.server.answers import Answers
from pykbroker.server.endpoints import BrokerEndpoints, ReachableBrokers
from pykbroker.server.forwarding import ControllerRequests
from pykbroker.server.handler import Answer, ApiHandler, EncodedResponse, Later, RequestContext, now_or_later
from wire.api import ApiKey
from wire.apis import APIS
from wire.compile import stepwise_encoder
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from wire.sentinels import NO_LEADER

LISTENER_VERSION_FIRST, ASK_BY_ID_VERSION_FIRST = 6, 12
CREATION_VERSION = APIS[ApiKey.CREATE_TOPICS].accepted.last
"""The version in which the controller is asked for topics in the name of a client."""


class Metadata(ApiHandler, frozen=True):
    """A handler that waits only while it creates topics.

    The handler builds a response in steps, and caches it for equal requests.
    """

    node_id: int
    cluster_id: str
    image: Callable[[], MetadataImage]
    automatic: AutomaticTopics
    endpoints: BrokerEndpoints
    auto_create: bool
    replicas: Replicas
    answers: Answers
    controller: ControllerRequests

    def __call__(self, context: RequestContext, request: MetadataRequest) -> Answer:
        if context.version < ASK_BY_ID_VERSION_FIRST:
            for topic in request.topics or ():
                if topic.name is None or topic.topic_id != NIL:
                    raise ApiError(ErrorCode.INVALID_REQUEST, f"no topic ids in version {context.version}")
        elif request.topics and any(topic.topic_id != NIL for topic in request.topics):
            ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != NIL)
            request.topics = [MetadataRequestTopic(topic_id, None) for topic_id in ids]  # names beside ids are ignored
            return self._answer(context, request)
        if request.topics and self._creates(request):
            known = self.image().topics.by_name
            absent = {topic.name: None for topic in request.topics if topic.name and topic.name not in known}
            if absent:
                return now_or_later(self._create_or_answer(context, request, absent))
        return self._answer(context, request)

    def _creates(self, request: MetadataRequest) -> bool:
        """Whether requested topics that do not exist are to be created."""
        return self.auto_create and request.allow_auto_topic_creation

    def _create_or_answer(
        self, context: RequestContext, request: MetadataRequest, absent: dict[str, None]
    ) -> Steps[Answer]:
        """Answer after the creation of those absent topics that can be auto-created, at most `PARTITIONS_MAX` + 1.

        The controller refuses a request for `PARTITIONS_MAX` + 1 topics as a whole.
        """
        shown = yield from allowed_in_steps(context, METADATA_TOPIC, absent)
        creatable = yield from allowed_in_steps(context, METADATA_CREATION, shown)
        legal_ones = (name for name in creatable if legal(name) and not is_internal(name))
        names = list(islice(legal_ones, PARTITIONS_MAX + 1))
        if names:
            return Later(self._create(context, request, names), holds_connection=True, awaits_node=True)
        return self._answer(context, request)

    async def _create(self, context: RequestContext, request: MetadataRequest, names: list[str]) -> Answer:
        """Create the topics, then answer.

        The response reports a topic that cannot be created, or not in time, as unknown. The log has the reason why the
        controller refuses a topic, and the client asks again for a topic whose creation goes on.
        """
        topics = [CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in names]
        basis = context.session.basis
        ask = partial(self.controller.ask, RequestContext(CREATION_VERSION, context.client_id, context.session))
        with suppress(ApiError):
            await self.automatic.create_topics(CreateTopicsRequest(topics=topics), ask, basis)
        if context.session.basis != basis:
            context.decisions = None  # they are out of date, and the answer is cached for clients with the new rights
        return self._answer(context, request)

    def _answer(self, context: RequestContext, request: MetadataRequest) -> Answer:
        """Return the cached response to an equal request.

        The cache is cleared when the image changes or a log goes offline. A response that refuses a topic is not
        cached, since the authorizer logs each refusal, nor is the cache used while it logs what it allows.
        """
        image, topics = self.image(), request.topics
        cache_key = (
            context.version,
            context.session.basis,
            self.endpoints.address(context.session),
            context.session.listener,
            request.include_cluster_authorized_operations,
            request.include_topic_authorized_operations,
            self._creates(request),
            None if topics is None else tuple(dict.fromkeys([(topic.name, topic.topic_id) for topic in topics])),
        )
        cached = self.answers.find(image, cache_key)
        if cached is not None and not context.session.is_audited and not any(map(self.replicas.offline, cached.topics)):
            return cached.answer
        return now_or_later(self._describe(context, request, image, cache_key))

    def _describe(
        self, context: RequestContext, request: MetadataRequest, image: MetadataImage, cache_key: Hashable
    ) -> Steps[Answer]:
        departed = self.endpoints.note()
        response = MetadataResponse(
            brokers=[
                MetadataResponseBroker(*one) for one, _ in self.endpoints.alive(context.session, with_departed=True)
            ],
            cluster_id=self.cluster_id,
            controller_id=self.node_id,
        )
        if request.include_cluster_authorized_operations:
            shown = may(context, METADATA_CLUSTER_OPERATIONS)
            response.cluster_authorized_operations = cluster_operations(context.session, self.key) if shown else 0
        brokers = self.endpoints.reachable(context.session)
        for found in self._topics(context, request, image.topics):
            if found is None:
                yield
                continue
            if isinstance(found, MetadataResponseTopic):
                topic = found
            else:
                topic = yield from self._described(found, brokers, context.version)
            if (
                request.include_topic_authorized_operations
                and topic.name is not None
                and (topic.error_code != METADATA_TOPIC.code)
            ):
                topic.topic_authorized_operations = authorized_operations(
                    context.session, self.key, ResourceType.TOPIC, topic.name
                )
            response.topics.append(topic)
            yield
        parts: list[Any] = []
        yield from stepwise_encoder(MetadataResponse, context.version)(response, parts)
        answer = EncodedResponse([b"".join(parts)])
        own = self.node_id
        if not departed and not any(
            topic.error_code == METADATA_TOPIC.code or any(own in one.offline_replicas for one in topic.partitions)
            for topic in response.topics
        ):
            self.answers.keep(image, cache_key, answer, tuple(topic.topic_id for topic in response.topics))
        return answer

    def _topics(
        self, context: RequestContext, request: MetadataRequest, topics: TopicsImage
    ) -> Iterator[TopicImage | MetadataResponseTopic | None]:
        """Yield each requested topic, or the error result of a topic that cannot be described.

        If all topics are requested, None stands for one that the client may not describe.
        """
        if request.topics is None or (context.version == 0 and not request.topics):
            for topic in topics.by_name.values():
                yield topic if may(context, METADATA_ALL_TOPICS, topic.name) else None
            return
        creates = self._creates(request)
        for asked in {(topic.name, topic.topic_id): topic for topic in request.topics}.values():  # each topic once
            yield self._topic(context, asked, topics, creates=creates)

    def _topic(
        self, context: RequestContext, asked: MetadataRequestTopic, topics: TopicsImage, *, creates: bool
    ) -> TopicImage | MetadataResponseTopic:
        if asked.name is None or asked.topic_id != NIL:
            topic = topics.by_id.get(asked.topic_id)
            if topic is None:
                return failed(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
            if not may(context, METADATA_TOPIC, topic.name):  # an id is no secret, a name is
                return MetadataResponseTopic(METADATA_TOPIC.code, None, asked.topic_id)
            return topic
        if not may(context, METADATA_TOPIC, asked.name):
            return MetadataResponseTopic(METADATA_TOPIC.code, asked.name)
        topic = topics.by_name.get(asked.name)
        if topic is not None:
            return topic
        if creates and not may(context, METADATA_CREATION, asked.name):
            return failed(METADATA_CREATION.code, asked.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return failed(unknown if legal(asked.name) else ErrorCode.INVALID_TOPIC_EXCEPTION, asked.name)

    def _described(
        self, topic: TopicImage, brokers: ReachableBrokers, version: int
    ) -> Generator[None, None, MetadataResponseTopic]:
        """Describe a topic and all its partitions. A partition whose log is offline has no leader."""
        offline, partitions = self.replicas.offline(topic.id), []
        for index, partition in topic.partitions.items():
            leader, code = brokers.leader(partition)
            if leader == self.node_id and index in offline:
                leader, code = NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
            elif code == ErrorCode.LISTENER_NOT_FOUND and version < LISTENER_VERSION_FIRST:
                code = ErrorCode.LEADER_NOT_AVAILABLE
            described = MetadataResponsePartition(
                error_code=code,
                partition_index=index,
                leader_id=leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                offline_replicas=brokers.offline_replicas(partition, self.node_id if index in offline else None),
            )
            partitions.append(described if version else reachable_only(described, brokers))
            yield
        return MetadataResponseTopic(
            name=topic.name, topic_id=topic.id, is_internal=is_internal(topic.name), partitions=partitions
        )


def reachable_only(partition: MetadataResponsePartition, brokers: ReachableBrokers) -> MetadataResponsePartition:
    """Return what version 0 has of a partition: the replicas on reachable brokers, and an error if one is missing."""
    replicas, isr = partition.replica_nodes, partition.isr_nodes
    partition.replica_nodes = [replica for replica in replicas if replica in brokers]
    partition.isr_nodes = [replica for replica in isr if replica in brokers]
    if not partition.error_code and partition.replica_nodes != replicas:
        partition.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    return partition


def legal(name: str) -> bool:
    """Whether the name is valid for a topic."""
    try:
        check_topic_name(name)
    except ApiError:
        return False
    return True


def failed(code: ErrorCode, name: str | None, topic_id: bytes = NIL) -> MetadataResponseTopic:
    """Return an error result without partitions."""
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=topic_id, is_internal=name is not None and is_internal(name)
    )
