"""The partitions of this broker: each with its log, its leadership and high watermark, and its waiting requests.

1. `storage` owns the state that a log alone can rebuild. This package owns the state of the cluster: leadership, high
   watermark, ISR. `core/partition` decides about these; `Partition` carries the decisions out.
2. A handler asks `Replicas` for a partition, and gets a partition or an `ApiError` with the reason.
3. A waiting request has a `Watch`: one event that each of its partitions may set. Nothing here calls back.
4. This package waits for the disk on behalf of API files, which never do.
5. The package must not know requests, connections or groups.
"""
