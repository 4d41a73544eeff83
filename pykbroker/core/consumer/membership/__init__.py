"""The machines of a group's member: `classic` with JoinGroup and SyncGroup, and `consumer` with KIP-848.

1. The user's task calls `poll` and then `step` until it returns None. It carries out each step and calls `answer`. The
   rebalance listener is thus only called in the user's task.
2. A background task calls `heartbeat` whenever `heartbeat_at_ms` has come, sends the request that it returns, and calls
   `heartbeat_answered` with the response, or with None if there is none.
3. Requests go to the group's coordinator. While `needs_coordinator` is true, the caller has to look it up anew.
4. A member that does not poll for `max.poll.interval.ms` leaves the group, and joins again with its next poll.
5. Partitions are revoked if the member still owned them, and lost if the group may have given them away already.
"""
