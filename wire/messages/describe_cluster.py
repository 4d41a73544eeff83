"""The messages of DescribeCluster (API key 60), versions 0-2, all flexible.

- Version 1 adds `endpoint_type` to the request. It adds `endpoint_type` to the response.
- Version 2 adds `include_fenced_brokers` to the request. It adds `is_fenced` to the response.
"""

from typing import Annotated

from wire.declare import Bool, Int8, Int16, Int32, Request, Response, Struct, V


class DescribeClusterRequest(Request["DescribeClusterResponse"]):
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, V("1+")] = 1
    include_fenced_brokers: Annotated[Bool, V("2+")] = False


class DescribeClusterBroker(Struct):
    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, V(nullable="0+")] = None
    is_fenced: Annotated[Bool, V("2+")] = False


class DescribeClusterResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    endpoint_type: Annotated[Int8, V("1+")] = 1
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = []
    cluster_authorized_operations: Int32 = -(2**31)
