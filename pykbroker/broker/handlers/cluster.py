"""The handlers for brokers, features and log directories."""

from __future__ import annotations

from pykbroker.apis.cluster.alter_replica_log_dirs import AlterReplicaLogDirs
from pykbroker.apis.cluster.describe_cluster import DescribeCluster
from pykbroker.apis.cluster.describe_log_dirs import DescribeLogDirs
from pykbroker.apis.controller_apis import ControllerHandler
from pykbroker.broker.parts import Parts
from pykbroker.server.handler import Handler
from wire.api import ApiKey


def cluster_handlers(parts: Parts) -> list[Handler]:
    """Return the handlers of `apis.cluster` except ApiVersions."""
    controller, identity = parts.controller, parts.identity
    return [
        AlterReplicaLogDirs(parts.replicas),
        DescribeLogDirs(parts.directories, parts.world.disks, parts.refused_paths, parts.replicas),
        ControllerHandler(ApiKey.UPDATE_FEATURES, controller),
        ControllerHandler(ApiKey.UNREGISTER_BROKER, controller),
        DescribeCluster(identity.node_id, identity.cluster_id, parts.image, parts.endpoints),
    ]
