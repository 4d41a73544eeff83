"""The partitions of this broker: each with its log, its leadership and high watermark, and its waiting requests.

1. `storage` owns what can be rebuilt from a log alone. This package owns what needs the cluster: leadership, high
   watermark, ISR. `core/partition` decides about these; `Partition` carries the decisions out.
2. A handler asks `Replicas` for a partition, and gets a partition or an `ApiError` with the reason.
3. A waiting request has a `Watch`: one event that each of its partitions may set. Nothing here calls back.
4. This package waits for the disk on behalf of API files, which never do.
5. It must not know requests, connections or groups.
"""
