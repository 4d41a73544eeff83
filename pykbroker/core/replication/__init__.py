"""Replication of one partition: what its leader and its followers decide.

1. The high watermark never decreases, except where a follower truncates its log, and never exceeds the log end offset.
2. A leader's high watermark is at most the log end offset of every member of the maximal ISR: the committed ISR with
   the members that a pending change adds. A pending change removes nobody (KIP-497). The high watermark stands while
   the committed ISR is smaller than the effective min ISR.
3. A new leader begins with the high watermark that it had, never with its log end offset. A follower's log end offset
   is unknown until it fetches.
4. A follower truncates its log by leader epochs, never by its high watermark, unless it has no epoch (KIP-101,
   KIP-279). An answer counts only if the offset and the leader epoch are still those of the request.
5. With `pykbroker.flush.before.ack`, no record is committed or acknowledged before it is durable.
6. Offsets and times are arguments. Times are in ms, monotonic.
"""
