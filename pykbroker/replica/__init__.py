"""The partitions of this broker: a subpackage each for their logs and roles, leading, following, places and care.

1. `storage` owns the state that a log alone can rebuild. This package owns the state of the cluster: roles, high
   watermark, ISR. `core/replication` decides about them, and `Partition` carries the decisions out.
2. A handler gets a partition from `Replicas`, or an `ApiError` with the reason why it cannot be used.
3. `Replicas` applies new metadata: it opens, leads, follows, configures and deletes partitions. It uses
   `following`, `placing` and `partition`, and must not know `leading` and `care`.
4. The package must not know groups, transactions or connections: a leader is asked through a `LeaderLink`.
"""
