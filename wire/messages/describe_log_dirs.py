"""The messages of DescribeLogDirs (API key 35), versions 1-5, flexible from version 2.

- Version 2 is flexible.
- Version 3 adds `error_code` to the response.
- Version 4 adds `total_bytes` and `usable_bytes` to the response.
- Version 5 adds `is_cordoned` to the response.
"""

from typing import Annotated

from wire.declare import Bool, Int16, Int32, Int64, Request, Response, Struct, V


class DescribableLogDirTopic(Struct):
    topic: str = ""
    partitions: list[Int32] = []


class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    topics: Annotated[list[DescribableLogDirTopic] | None, V(nullable="0+")] = []


class DescribeLogDirsPartition(Struct):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


class DescribeLogDirsTopic(Struct):
    name: str = ""
    partitions: list[DescribeLogDirsPartition] = []


class DescribeLogDirsResult(Struct):
    error_code: Int16 = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = []
    total_bytes: Annotated[Int64, V("4+", ignorable=True)] = -1
    usable_bytes: Annotated[Int64, V("4+", ignorable=True)] = -1
    is_cordoned: Annotated[Bool, V("5+", ignorable=True)] = False


class DescribeLogDirsResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V("3+", ignorable=True)] = 0
    results: list[DescribeLogDirsResult] = []
