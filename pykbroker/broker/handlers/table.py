"""The table that has the handler of each API."""

from __future__ import annotations

from pykbroker.apis.cluster.api_versions import ApiVersions
from pykbroker.broker.handlers.cluster import cluster_handlers
from pykbroker.broker.handlers.configs import config_handlers
from pykbroker.broker.handlers.forwarded import forwarded
from pykbroker.broker.handlers.groups import group_handlers
from pykbroker.broker.handlers.raft import raft_handlers
from pykbroker.broker.handlers.records import record_handlers
from pykbroker.broker.handlers.security import security_handlers
from pykbroker.broker.handlers.topics import topic_handlers
from pykbroker.broker.handlers.transactions import transaction_handlers
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
        *group_handlers(parts),
        *transaction_handlers(parts),
        *config_handlers(parts, answer_bytes_max),
        *cluster_handlers(parts),
        *security_handlers(parts),
        *raft_handlers(parts),
    ]
    if parts.remote_controller is not None:
        handlers = forwarded(handlers, parts.remote_controller.forwarding)
    versions = served([*handlers, ApiVersions((), parts.image)])
    return ApiTable([*handlers, ApiVersions(versions, parts.image, parts.kraft_version)], parts.peer_authorizer)
