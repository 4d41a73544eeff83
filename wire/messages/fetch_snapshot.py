"""The messages of FetchSnapshot (API key 59), versions 0-1, all flexible.

- Version 1 adds `replica_directory_id` to the request. It adds `node_endpoints` to the response.
"""

from typing import Annotated

from wire.declare import NIL, UUID, AnyRecords, FrozenStruct, Int16, Int32, Int64, Request, Response, Struct, UInt16, V


class SnapshotId(FrozenStruct, frozen=True):
    end_offset: Int64 = 0
    epoch: Int32 = 0


class FetchSnapshotRequestPartitionSnapshot(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = 0
    snapshot_id: SnapshotId = SnapshotId()
    position: Int64 = 0
    replica_directory_id: Annotated[UUID, V("1+", tag=0, ignorable=True)] = NIL


class FetchSnapshotRequestTopicSnapshot(Struct):
    name: str = ""
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = []


class FetchSnapshotRequest(Request["FetchSnapshotResponse"]):
    cluster_id: Annotated[str | None, V(nullable="0+", tag=0)] = None
    replica_id: Int32 = -1
    max_bytes: Int32 = 2**31 - 1
    topics: list[FetchSnapshotRequestTopicSnapshot] = []


class LeaderIdAndEpoch(FrozenStruct, frozen=True):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class FetchSnapshotResponsePartitionSnapshot(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    snapshot_id: SnapshotId = SnapshotId()
    current_leader: Annotated[LeaderIdAndEpoch, V(tag=0)] = LeaderIdAndEpoch()
    size: Int64 = 0
    position: Int64 = 0
    unaligned_records: AnyRecords = None


class FetchSnapshotResponseTopicSnapshot(Struct):
    name: str = ""
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = []


class NodeEndpoint(Struct):
    node_id: Annotated[Int32, V("1+")] = 0
    host: Annotated[str, V("1+")] = ""
    port: Annotated[UInt16, V("1+")] = 0


class FetchSnapshotResponse(Response):
    throttle_time_ms: Annotated[Int32, V(ignorable=True)] = 0
    error_code: Int16 = 0
    topics: list[FetchSnapshotResponseTopicSnapshot] = []
    node_endpoints: Annotated[list[NodeEndpoint], V("1+", tag=0)] = []
