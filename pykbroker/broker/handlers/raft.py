"""The handlers for the quorum of the metadata log."""

from __future__ import annotations

from pykbroker.apis.raft.add_raft_voter import AddRaftVoter
from pykbroker.apis.raft.describe_quorum import DescribeQuorum
from pykbroker.apis.raft.remove_raft_voter import RemoveRaftVoter
from pykbroker.broker.parts import Parts
from pykbroker.server.handler import Handler


def raft_handlers(parts: Parts) -> list[Handler]:
    """Return the handlers of `apis.raft`."""
    image, identity = parts.image, parts.identity
    return [
        DescribeQuorum(identity.node_id, parts.controller, parts.endpoints, parts.world.wall_ms),
        AddRaftVoter(identity.cluster_id, image, parts.settings.inter_broker_listener),
        RemoveRaftVoter(identity.cluster_id, image),
    ]
