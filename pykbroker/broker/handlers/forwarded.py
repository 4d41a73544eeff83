"""The handlers of a node that is no controller: they forward what only the controller can decide (KIP-590)."""

from __future__ import annotations

from collections.abc import Iterable

from pykbroker.quorum.controller_channel import ControllerChannel
from pykbroker.server.forwarding import ForwardedHandler
from pykbroker.server.handler import Handler
from wire.api import ApiKey

FORWARDABLE = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
    }
)
"""The APIs that a controller accepts in an Envelope."""
LOCAL = frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})
"""Forwardable APIs of which the broker handles a part itself: log levels. Its handlers forward the rest."""
FORWARDED_ONLY = ((ApiKey.DESCRIBE_QUORUM, "0-2"),)
"""APIs that a node without a controller has no handler of its own for, with their versions."""


def forwarded(handlers: Iterable[Handler], channel: ControllerChannel) -> list[Handler]:
    """Return the handlers, with those of the APIs that the controller decides replaced by forwarding ones."""
    found = [
        ForwardedHandler(handler.key, handler.versions, channel) if handler.key in FORWARDABLE - LOCAL else handler
        for handler in handlers
    ]
    return found + [ForwardedHandler(key, versions, channel) for key, versions in FORWARDED_ONLY]
