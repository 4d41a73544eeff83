"""The handlers on the listeners of controllers: for other brokers, and for tools that ask the controller (KIP-919)."""

from __future__ import annotations

from pykbroker.apis.brokers.broker_heartbeat import BrokerHeartbeat
from pykbroker.apis.brokers.broker_registration import BrokerRegistration
from pykbroker.apis.brokers.envelope import Envelope
from pykbroker.apis.cluster.api_versions import ApiVersions
from pykbroker.apis.cluster.describe_cluster import CONTROLLERS, DescribeCluster
from pykbroker.apis.controller_apis import CONTROLLER_APIS, ControllerHandler
from pykbroker.apis.raft.fetch import MetadataLogFetch
from pykbroker.apis.raft.fetch_snapshot import FetchSnapshot
from pykbroker.broker.handlers.deferred import CLUSTER, CONFIGS, SECURITY
from pykbroker.broker.handlers.forwarded import FORWARDABLE
from pykbroker.broker.handlers.raft import raft_handlers
from pykbroker.broker.handlers.topics import topic_handlers
from pykbroker.broker.parts import Parts
from pykbroker.quorum.controller import Controller
from pykbroker.quorum.heartbeat_links import HeartbeatLinks
from pykbroker.server.handler import Handler
from pykbroker.server.table import ApiTable, served
from wire.api import ApiKey

ALSO_OF_CLIENTS = frozenset(
    {
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    }
)
"""APIs that are not forwarded, and that listeners of clients and of controllers serve alike."""


def controller_table(parts: Parts, controller: Controller, links: HeartbeatLinks, answer_bytes_max: int) -> ApiTable:
    """Return the table of handlers of the controller's listeners."""
    alike = [
        handler
        for handler in (
            *topic_handlers(parts),
            *CONFIGS.deferred(parts, answer_bytes_max, of_controllers=True),
            *CLUSTER.deferred(parts),
            *SECURITY.deferred(parts),
            *raft_handlers(parts),
        )
        if handler.key in FORWARDABLE | ALSO_OF_CLIENTS
    ]
    of_brokers = broker_handlers(controller, links)
    may_be_forwarded = ApiTable([handler for handler in (*alike, *of_brokers) if handler.key in FORWARDABLE])
    handlers = [*alike, *of_brokers, *metadata_handlers(parts, controller), Envelope(may_be_forwarded, parts.turns)]
    versions = served([*handlers, ApiVersions((), parts.image)], by_controller=True)
    return ApiTable([*handlers, ApiVersions(versions, parts.image, parts.kraft_version)])


def broker_handlers(controller: Controller, links: HeartbeatLinks) -> list[Handler]:
    """Return the handlers of the requests that brokers send to the controller, except Envelope."""
    return [
        BrokerRegistration(controller, controller.applied),
        BrokerHeartbeat(controller, links),
        *(ControllerHandler(key, controller) for key, row in CONTROLLER_APIS.items() if row.of_brokers),
    ]


def metadata_handlers(parts: Parts, controller: Controller) -> list[Handler]:
    """Return the handlers that serve the metadata log, and the one that describes the controllers."""
    node_id, cluster_id = parts.identity.node_id, parts.identity.cluster_id
    return [
        MetadataLogFetch(node_id, cluster_id, controller, parts.endpoints),
        FetchSnapshot(node_id, cluster_id, controller.fetches, parts.endpoints),
        DescribeCluster(node_id, cluster_id, parts.image, parts.endpoints, CONTROLLERS),
    ]
