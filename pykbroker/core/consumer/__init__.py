"""The pure half of the consumer: its subscription and positions, what it fetches, and its membership in a group.

1. The position of a partition is the offset of the next record for the user. It moves forward with the records that
   the user receives, and otherwise only by a seek, a reset or a truncation (KIP-320).
2. A response is parsed when the user asks for records, one batch at a time. Its records stay columns until the user
   asks for objects. Records that are not next in line, for example after a seek, are dropped.
3. A membership machine returns the request to send next, and the calls of the rebalance listener. It continues once the
   caller has made the calls.

Nothing here waits, locks, logs or reads a clock. Cluster metadata comes in as functions. `now_ms` is monotonic, and
`wall_ms` is in ms since 1970.
"""
