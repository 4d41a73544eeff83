"""The last part of a start: registration, leadership, and the topics that the settings name."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pykbroker.broker.address import BoundListeners, endpoints
from pykbroker.broker.parts import Parts
from pykbroker.broker.quorum import controller_endpoints
from pykbroker.core.config.listeners import NOT_ROUTABLE
from pykbroker.core.errors import ApiError, StartError
from pykbroker.core.metadata.image import Endpoint
from pykbroker.core.settings import Settings
from wire.declare import NIL
from wire.error_codes import ErrorCode, error_code
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreatableTopicResult, CreateTopicsRequest
from wire.sentinels import BROKER_DEFAULT, NO_BROKER_EPOCH

ADVICE: dict[int, str] = {
    ErrorCode.INVALID_REPLICATION_FACTOR: "write fewer replicas",
    ErrorCode.POLICY_VIOLATION: "write fewer partitions",
}
"""The advice about a topic that the controller refuses, by error code."""

logger = logging.getLogger(__name__)


async def register(parts: Parts) -> frozenset[str]:
    """Register with the controller, take leadership, and create the topics and users of the settings.

    A node that is no controller applies no metadata before it has caught up: an old image would let it judge partitions
    as strays. Return the names of the new users. Raise ApiError or StartError.
    """
    settings, lifecycle = parts.settings, parts.lifecycle
    if parts.local_controller is not None:
        parts.caught_up.set()
        bound = BoundListeners(parts.listeners.bound, parts.controller_bound, parts.secured)
        await lifecycle.register_controller(controller_endpoints(settings, bound))
    of_clients = endpoints(settings.listeners, parts.listeners.bound)
    warn_unreachable(settings, of_clients)
    clean = all(directory.clean for directory in parts.directories)
    epochs = {directory.clean_epoch for directory in parts.directories}
    clean_epoch = epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH
    await lifecycle.register(of_clients, settings.config.broker_rack, clean=clean, clean_epoch=clean_epoch)
    if parts.local_controller is None:
        await lifecycle.wait_caught_up()
        parts.caught_up.set()
    await lifecycle.unfence()
    await create_topics(parts)
    if not parts.settings.users:
        return frozenset()
    from pykbroker.broker.users import make_users

    return await make_users(parts)


def warn_unreachable(settings: Settings, of_clients: Sequence[Endpoint]) -> None:
    """Log a warning if other nodes and their clients would get an address that they cannot connect to."""
    for endpoint in of_clients if settings.has_other_nodes else ():
        if endpoint.host in NOT_ROUTABLE:
            logger.warning(
                "other brokers, and clients that ask them, get the address %s:%d for listener %s of this broker, and"
                " cannot connect to it: start with --advertise %s=HOST:PORT, or set advertised.listeners",
                endpoint.host,
                endpoint.port,
                endpoint.name,
                endpoint.name,
            )


async def create_topics(parts: Parts) -> None:
    """Create the topics of the settings that do not exist. Raise StartError if the controller refuses a topic."""
    known = parts.image().topics.by_name
    for topic in parts.settings.topics:
        existing = len(known[topic.name].partitions) if topic.name in known else topic.partitions
        if topic.partitions not in (existing, BROKER_DEFAULT):
            logger.warning(
                "topic %s already exists with %d partitions; their number is not changed", topic.name, existing
            )
    topics = [
        CreatableTopic(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replicas,
            configs=[CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
        )
        for topic in parts.settings.topics
        if topic.name not in known
    ]
    if not topics:
        return
    sources = {topic.name: topic.source for topic in parts.settings.topics}
    for result in await results_of(parts, topics):
        if result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):  # another broker creates it, too
            continue
        reason = (result.error_message or error_code(result.error_code).name).removesuffix(".")
        failure = ": ".join(filter(None, (sources[result.name], f"cannot create the topic {result.name}", reason)))
        lacks_brokers = result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        if not (lacks_brokers and parts.settings.has_other_nodes):
            raise StartError(f"{failure}: {ADVICE.get(result.error_code, 'correct the topic')}")
        logger.warning("%s: the next broker that starts with this topic creates it", failure)


async def results_of(parts: Parts, topics: Sequence[CreatableTopic]) -> Sequence[CreatableTopicResult]:
    """Ask the controller for topics, and return its results: all at once, or one by one if they are too many for that.

    The controller limits the records that one request writes.
    """
    try:
        results: Sequence[CreatableTopicResult] = (
            await parts.controller.ask(CreateTopicsRequest(topics=list(topics)))
        ).topics
    except ApiError as error:
        if error.code != ErrorCode.POLICY_VIOLATION:
            raise
        results = [CreatableTopicResult(topic.name, NIL, error.code, error.message) for topic in topics]
    if len(topics) > 1 and all(result.error_code == ErrorCode.POLICY_VIOLATION for result in results):
        return [result for topic in topics for result in await results_of(parts, [topic])]
    return results
