"""DescribeCluster (60), v0-2: return the brokers of the cluster and its controller.

v0 brokers   v1 endpoint type: a broker lists brokers only (KIP-919)   v2 fenced brokers on request (KIP-1073)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec

from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.authorizer import Authorizer, cluster_operations
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.handler import Handler, RequestContext
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

BROKERS, CONTROLLERS = 1, 2


class DescribeCluster(Handler, msgspec.Struct, frozen=True):
    """A handler that returns this broker under its advertised address, or the address that the client connected to."""

    key: ClassVar = ApiKey.DESCRIBE_CLUSTER
    versions: ClassVar[str] = "0-2"
    node_id: int
    cluster_id: str
    image: Callable[[], MetadataImage]
    endpoints: BrokerEndpoints
    authorizer: Authorizer

    def __call__(self, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
        if request.endpoint_type != BROKERS:
            return unsupported(request.endpoint_type)
        response = DescribeClusterResponse(
            cluster_id=self.cluster_id, controller_id=self.node_id, brokers=self._brokers(context, request)
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = cluster_operations(self.authorizer, context.session)
        return response

    def _brokers(self, context: RequestContext, request: DescribeClusterRequest) -> list[DescribeClusterBroker]:
        broker = self.image().cluster.brokers.get(self.node_id)
        if broker is None or (broker.fenced and not request.include_fenced_brokers):
            return []
        return [DescribeClusterBroker(*self.endpoints.own(context.session), is_fenced=broker.fenced)]


def unsupported(endpoint_type: int) -> DescribeClusterResponse:
    """Return the error for an endpoint type other than BROKER."""
    if endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type "
            "BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=f"Unsupported endpoint type {endpoint_type}"
    )
