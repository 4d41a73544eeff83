"""The check that a topic has the partition that a command is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pykbroker.cli.ask import converse
from pykbroker.cli.parameters import bootstrap_servers
from pykbroker.cli.tables import counted

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.producer import Producer


def lacking(topic: str, partitions: int, index: int) -> str:
    """Return a sentence about a partition that a topic with this number of partitions lacks."""
    return f"topic '{topic}' has {counted(partitions, 'partition')} and no partition {index}"


async def require_partition(producer: Producer, settings: Mapping[str, Any], topic: str, index: int) -> None:
    """Raise UnknownPartition at once if a topic lacks a partition. A topic that does not exist is created first.

    `settings` are those of the producer.

    The producer by itself would wait for the partition up to `max_block_ms`, as Kafka's does.
    """
    from pykbroker.client.security_settings import client_security, split_security
    from pykbroker.core.producer.errors import UnknownPartition

    if index in await producer.partitions_for(topic):
        return

    async def look(admin: Admin) -> None:
        (found,) = await admin.topics([topic])
        if not 0 <= index < len(found.partitions):  # otherwise it was added after the producer asked for metadata
            raise UnknownPartition(lacking(topic, len(found.partitions), index))

    security = client_security(split_security(settings)[0])
    await converse(bootstrap_servers(settings["bootstrap_servers"]), look, security)
