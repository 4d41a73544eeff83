"""The handlers for the quorum of the metadata log."""

from __future__ import annotations

from pykbroker.apis.raft.add_raft_voter import AddRaftVoter
from pykbroker.apis.raft.describe_quorum import DescribeQuorum
from pykbroker.apis.raft.remove_raft_voter import RemoveRaftVoter
from pykbroker.broker.parts import Parts
from pykbroker.server.handler import Handler


def raft_handlers(parts: Parts) -> list[Handler]:
    """Return the handlers of `apis.raft` for clients. A controller in another process describes the quorum."""
    identity, controller = parts.identity, parts.local_controller
    listener = next(iter(parts.controller_bound), parts.settings.inter_broker_listener)
    handlers: list[Handler] = [
        AddRaftVoter(identity.cluster_id, parts.kraft_version, listener),
        RemoveRaftVoter(identity.cluster_id, parts.kraft_version),
    ]
    if controller is not None:
        handlers.append(
            DescribeQuorum(
                identity.node_id, controller, parts.endpoints, parts.world.wall_ms, bool(parts.controller_bound)
            )
        )
    return handlers
