"""The active controller in another process, as a broker asks it. It matches `active_controller.ActiveController`."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from pykbroker.core.errors import ApiError
from pykbroker.core.security.authorizer import LACKS_CLUSTER_ACTION
from pykbroker.quorum.active_controller import Rsp
from pykbroker.quorum.controller_channel import Channels, ControllerChannel
from pykbroker.quorum.quorum_leader import QuorumLeader
from wire.declare import Request
from wire.error_codes import ErrorCode, error_code
from wire.messages.alter_partition import AlterPartitionRequest
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from wire.messages.broker_registration import BrokerRegistrationRequest

HEARTBEATS, PARTITIONS, DIRECTORIES, OTHERS = "heartbeat", "alter-partition", "directory-assignment", "forwarding"
OF: Mapping[type, str] = {
    BrokerRegistrationRequest: HEARTBEATS,
    BrokerHeartbeatRequest: HEARTBEATS,
    AlterPartitionRequest: PARTITIONS,
    AssignReplicasToDirsRequest: DIRECTORIES,
}
"""The channel of each request. All others share a channel."""
TIMEOUT_S = 60.0
"""The time after which a request is given up, unless its channel has another limit."""


class RemoteController:
    """The active controller in another process. Each kind of requests has a connection of its own.

    A heartbeat is given up after `heartbeat_s_max`, since the next one follows. AlterPartition is never given up.
    """

    def __init__(self, channels: Channels, heartbeat_s_max: float, leader: QuorumLeader) -> None:
        kinds = (HEARTBEATS, PARTITIONS, DIRECTORIES, OTHERS)
        self._channels: dict[str, ControllerChannel] = {kind: channels(kind) for kind in kinds}
        self.leader = leader
        self._timeouts = {HEARTBEATS: heartbeat_s_max, PARTITIONS: inf}

    async def ask(self, request: Request[Rsp], /) -> Rsp:
        """Return the response once the change is committed.

        Raise ApiError with the top-level error of the response, or REQUEST_TIMED_OUT.
        """
        kind = OF.get(type(request), OTHERS)
        response = await self._channels[kind].ask(request, s_max=self._timeouts.get(kind, TIMEOUT_S))
        if code := getattr(response, "error_code", 0):
            lacks_right = code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            message = LACKS_CLUSTER_ACTION if lacks_right else getattr(response, "error_message", None)
            raise ApiError(error_code(code), message)
        return response

    @property
    def forwarding(self) -> ControllerChannel:
        """Return the connection for requests of clients."""
        return self._channels[OTHERS]

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
