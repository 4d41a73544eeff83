"""The fetchers of the partitions that this broker follows.

1. A fetcher has one connection to one leader, and one request on its way. An error of a partition pauses only that
   partition.
2. `core/replication/following` decides about each answer. `Followed` appends to a partition's log or truncates it.
3. A partition with another leader or leader epoch is fetched no longer, and a truncation of its log is finished first.
4. The package must not know `Replicas` or the rooms `leading`, `placing` and `care`.
"""
