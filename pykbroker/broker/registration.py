"""The last part of a start: registration, leadership, and the topics that the settings name."""

from __future__ import annotations

import logging

from pykbroker.broker.address import advertised
from pykbroker.broker.parts import Parts
from pykbroker.core.address import Address
from pykbroker.core.errors import StartError
from pykbroker.core.metadata.image import Endpoint
from pykbroker.core.new_topic import BROKER_DEFAULT
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

PLAINTEXT = 0

logger = logging.getLogger(__name__)


async def register(parts: Parts) -> None:
    """Register with the controller, take leadership, and create the topics of the settings.

    Raise ApiError or StartError.
    """
    settings = parts.settings
    addresses = {name: Address(bound.host, bound.port) for name, bound in parts.bound.items()}
    addresses |= advertised(settings, parts.bound)
    endpoints = {name: Endpoint(name, *address, security_protocol=PLAINTEXT) for name, address in addresses.items()}
    await parts.lifecycle.register_controller([endpoints[settings.inter_broker_listener]])
    clean = all(directory.clean for directory in parts.directories)
    await parts.lifecycle.register([*endpoints.values()], settings.config.broker_rack, clean=clean)
    await parts.lifecycle.unfence()
    await create_topics(parts)


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
            replication_factor=BROKER_DEFAULT,
            configs=[CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
        )
        for topic in parts.settings.topics
        if topic.name not in known
    ]
    if not topics:
        return
    response = await parts.controller.ask(CreateTopicsRequest(topics=topics))
    for result in response.topics:
        if result.error_code:
            reason = result.error_message or ErrorCode(result.error_code).name
            raise StartError(f"cannot create the topic {result.name}: {reason}")
