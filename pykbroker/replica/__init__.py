"""The partitions this broker holds: a log each, its leadership and high watermark, and who waits for it.

1. `storage` owns what a log alone can rebuild; this package what needs the cluster: leadership, high watermark, ISR.
2. A handler asks `Replicas` for a partition it may use and gets it, or an `ApiError` that names why not.
3. Who waits stands in a `Watch`: one event that each of its partitions may set. Nothing here calls back.
4. It must not know requests, connections or groups.
"""
