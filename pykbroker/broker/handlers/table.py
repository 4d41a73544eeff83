"""The table that has the handler of each API."""

from __future__ import annotations

from pykbroker.apis.cluster.api_versions import ApiVersions
from pykbroker.broker.handlers.deferred import CLUSTER, CONFIGS, GROUPS, SECURITY, TRANSACTIONS
from pykbroker.broker.handlers.forwarded import forwarded
from pykbroker.broker.handlers.raft import raft_handlers
from pykbroker.broker.handlers.records import record_handlers
from pykbroker.broker.handlers.topics import topic_handlers
from pykbroker.broker.parts import Parts
from pykbroker.server.handler import Handler
from pykbroker.server.table import ApiTable, served


def api_table(parts: Parts, answer_bytes_max: int) -> ApiTable:
    """Return the table of handlers for clients, including ApiVersions, which describes the table.

    Requests for a controller in another process are forwarded.
    """
    handlers: list[Handler] = [
        *record_handlers(parts),
        *topic_handlers(parts),
        *GROUPS.deferred(parts),
        *TRANSACTIONS.deferred(parts),
        *CONFIGS.deferred(parts, answer_bytes_max),
        *CLUSTER.deferred(parts),
        *SECURITY.deferred(parts),
        *raft_handlers(parts),
    ]
    if parts.remote_controller is not None:
        handlers = forwarded(handlers, parts.remote_controller.forwarding)
    versions = served([*handlers, ApiVersions((), parts.image)])
    return ApiTable([*handlers, ApiVersions(versions, parts.image, parts.kraft_version)])
