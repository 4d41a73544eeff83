"""The messages of WriteTxnMarkers (API key 27), versions 1-2, all flexible.

- Version 2 adds `transaction_version` to the request.
"""

from typing import Annotated

from wire.declare import Bool, Int8, Int16, Int32, Int64, Request, Response, Struct, V


class WritableTxnMarkerTopic(Struct):
    name: str = ""
    partition_indexes: list[Int32] = []


class WritableTxnMarker(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: list[WritableTxnMarkerTopic] = []
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, V("2+", ignorable=True)] = 0


class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"]):
    markers: list[WritableTxnMarker] = []


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = []


class WritableTxnMarkerResult(Struct):
    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = []


class WriteTxnMarkersResponse(Response):
    markers: list[WritableTxnMarkerResult] = []
