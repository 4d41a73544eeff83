"""The partitions of this broker, each with its log, its leadership and high watermark, and its waiting requests.

1. `storage` owns the state that a log alone can rebuild. This package owns the state of the cluster: leadership, high
   watermark, ISR. `core/replication` decides about leadership and high watermark, and `Partition` carries the decisions
   out.
2. A handler gets a partition from `Replicas`, or an `ApiError` with the reason why it cannot be used.
3. A waiting request has a `Watch`: one event that each of its partitions may set. The package calls no callbacks.
4. This package waits for the disk, so that the handlers in `apis` never do.
5. The package must not depend on requests, connections or groups.
"""
