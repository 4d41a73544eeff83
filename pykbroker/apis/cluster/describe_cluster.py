"""DescribeCluster (60), v0-2: return the brokers of the cluster and its controller.

v0 brokers   v1 endpoint type (KIP-919)   v2 fenced brokers on request (KIP-1073)
A broker lists brokers, and the listeners of controllers list controllers. Either refuses the other endpoint type.
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.authorizer import cluster_operations
from pykbroker.core.security.rights import DESCRIBE_CLUSTER_OPERATIONS, DESCRIBE_CONTROLLERS, may, require
from pykbroker.core.security.session import Session
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.handler import ApiHandler, RequestContext
from wire.error_codes import ErrorCode
from wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

BROKERS, CONTROLLERS = 1, 2
TYPES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}
ENDPOINT_TYPE_VERSION_FIRST = 1


class DescribeCluster(ApiHandler, frozen=True):
    """A handler that returns each node under its address for the listener of the client.

    `endpoint_type` is the type of nodes that the listener describes. Kafka's controllers describe themselves only to
    a client that may alter the cluster; those of pykbroker also to a new broker, which asks for the id of the cluster.
    """

    node_id: int
    cluster_id: str
    image: Callable[[], MetadataImage]
    endpoints: BrokerEndpoints
    endpoint_type: int = BROKERS

    def __call__(self, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
        if self.endpoint_type == CONTROLLERS:
            require(context, DESCRIBE_CONTROLLERS)
        if request.endpoint_type != self.endpoint_type:
            return unsupported(request.endpoint_type, self.endpoint_type)
        response = DescribeClusterResponse(
            cluster_id=self.cluster_id,
            controller_id=self.node_id,
            brokers=self._brokers(context, request)
            if self.endpoint_type == BROKERS
            else self._controllers(context.session),
        )
        if context.version >= ENDPOINT_TYPE_VERSION_FIRST:
            response.endpoint_type = self.endpoint_type
        if request.include_cluster_authorized_operations:
            allowed = may(context, DESCRIBE_CLUSTER_OPERATIONS)
            response.cluster_authorized_operations = cluster_operations(context.session, self.key) if allowed else 0
        return response

    def _brokers(self, context: RequestContext, request: DescribeClusterRequest) -> list[DescribeClusterBroker]:
        found = self.endpoints.alive(context.session, with_fenced=request.include_fenced_brokers)
        return [
            DescribeClusterBroker(*endpoint, is_fenced=fenced)
            for endpoint, fenced in found
            if endpoint.node_id in self.image().cluster.brokers and (request.include_fenced_brokers or not fenced)
        ]

    def _controllers(self, session: Session) -> list[DescribeClusterBroker]:
        return [DescribeClusterBroker(self.node_id, *self.endpoints.controller_address(session))]


def unsupported(endpoint_type: int, supported: int) -> DescribeClusterResponse:
    """Return the error for an endpoint type that the listener does not describe."""
    if endpoint_type in TYPES:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=f"The request was sent to an endpoint of type {TYPES[supported]}, but we wanted an endpoint"
            f" of type {TYPES[endpoint_type]}",
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=f"Unsupported endpoint type {endpoint_type}"
    )
