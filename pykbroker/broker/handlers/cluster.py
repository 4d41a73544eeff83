"""The handlers for brokers, features and log directories."""

from __future__ import annotations

from pykbroker.apis.cluster.alter_replica_log_dirs import AlterReplicaLogDirs
from pykbroker.apis.cluster.describe_cluster import DescribeCluster
from pykbroker.apis.cluster.describe_log_dirs import DescribeLogDirs
from pykbroker.apis.cluster.unregister_broker import UnregisterBroker
from pykbroker.apis.cluster.update_features import UpdateFeatures
from pykbroker.broker.parts import Parts
from pykbroker.server.handler import Handler


def cluster_handlers(parts: Parts) -> list[Handler]:
    """Return the handlers of `apis.cluster` except ApiVersions."""
    controller, identity = parts.controller, parts.identity
    return [
        AlterReplicaLogDirs(parts.replicas),
        DescribeLogDirs(parts.directories, parts.world.disks, parts.refused_paths, parts.replicas),
        UpdateFeatures(controller),
        UnregisterBroker(controller),
        DescribeCluster(identity.node_id, identity.cluster_id, parts.image, parts.endpoints),
    ]
