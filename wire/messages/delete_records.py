"""The messages of DeleteRecords (API key 21), versions 0-2, flexible from version 2.

- Version 2 is flexible.
"""

from wire.declare import Int16, Int32, Int64, Request, Response, Struct


class DeleteRecordsPartition(Struct):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(Struct):
    name: str = ""
    partitions: list[DeleteRecordsPartition] = []


class DeleteRecordsRequest(Request["DeleteRecordsResponse"]):
    topics: list[DeleteRecordsTopic] = []
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = []


class DeleteRecordsResponse(Response):
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = []
