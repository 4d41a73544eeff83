"""A partition of this broker: its log, its health, its role, its high watermark, and who waits for it.

1. A role is a value, `Leading` or `Following` of `core/replication`, which the partition replaces in each leader epoch.
   The high watermark belongs to the partition, and outlives its roles.
2. A waiting request has a `Watch`: one event that each of its partitions may set. The session of a follower learns of
   changes through the Protocol `Follower`. The package calls no other callbacks.
3. An error of the disk becomes an ApiError here. A caller waits for the disk within `Partition.errors`.
4. The package must not know the other rooms of `replica`: fetch sessions, fetchers, moves, or repairs that run.
"""
