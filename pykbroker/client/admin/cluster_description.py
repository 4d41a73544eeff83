"""The brokers and the controller of a cluster, as an operator sees them."""

from __future__ import annotations

from typing import NamedTuple

import trio

from pykbroker.client.admin.admin import Admin, check
from pykbroker.client.errors import UnsupportedVersion
from pykbroker.core.address import Address
from pykbroker.core.errors import ApiError
from pykbroker.core.names import CLUSTER_METADATA_TOPIC
from wire.error_codes import ErrorCode
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from wire.sentinels import NO_LEADER

FENCED_VERSION_FIRST = 2
"""The first version of DescribeCluster that lists fenced brokers (KIP-1073)."""
CONTROLLER_S_MAX = 5
"""The longest wait for the controller. A broker may hold the request for a minute while there is none."""


class BrokerDescription(NamedTuple):
    """A registered broker, with the address that it advertises to this client."""

    broker: int
    address: Address
    rack: str | None
    fenced: bool


async def describe_brokers(admin: Admin) -> list[BrokerDescription]:
    """Return the registered brokers by id. Kafka before 4.0 leaves out those that are fenced."""
    version = admin.connection.newest_version(DescribeClusterRequest.key)
    request = DescribeClusterRequest(include_fenced_brokers=version >= FENCED_VERSION_FIRST)
    answer = await admin.connection.ask(request, version)
    check(answer.error_code, answer.error_message or "brokers")
    return sorted(
        BrokerDescription(each.broker_id, Address(each.host, each.port), each.rack, each.is_fenced)
        for each in answer.brokers
    )


async def find_controller(admin: Admin) -> int | None:
    """Return the node id of the active controller, or None while the quorum has no leader.

    DescribeCluster names the controller only in clusters with ZooKeeper. In all others it names any broker. ApiError
    CLUSTER_AUTHORIZATION_FAILED: the user may not describe the cluster.
    """
    partition = DescribeQuorumRequestPartitionData(0)
    request = DescribeQuorumRequest([DescribeQuorumRequestTopicData(CLUSTER_METADATA_TOPIC, [partition])])
    try:
        with trio.move_on_after(CONTROLLER_S_MAX):
            answer = await admin.connection.ask(request)
            if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, answer.error_message)
            found = [part for topic in answer.topics for part in topic.partitions]
            known = not answer.error_code and found and not found[0].error_code and found[0].leader_id != NO_LEADER
            return found[0].leader_id if known else None
    except UnsupportedVersion:
        return (await admin.connection.ask(DescribeClusterRequest(), 0)).controller_id
    return None
