"""The partitions of this broker: a subpackage each for their logs and roles, leading, following, places and care.

1. `storage` owns the state that a log alone can rebuild. This package owns the state of the cluster: roles, high
   watermark, ISR. `core/replication` decides about them, and `Partition` carries the decisions out.
2. A handler gets a partition from `Replicas`, or an `ApiError` with the reason why it cannot be used.
3. `Replicas` applies new metadata: it opens, leads, follows, configures and deletes partitions. What it calls for that
   is below it (`following`, `placing`, `partition`). What gets the partitions from it is above it (`leading`, `care`).
4. The package must not know groups, transactions or connections: a leader is asked through a `LeaderLink`.
"""
