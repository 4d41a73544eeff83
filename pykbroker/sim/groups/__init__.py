"""Consumer groups in the simulation: members that join, work, fall silent and leave, and the checks of their history.

1. A committed offset is a register: there must be one order of all commits, even late or unanswered ones, in which each
   response of OffsetFetch is the newest commit. Each commit has a mark of its own, by which a response identifies it.
2. A partition has one owner in a generation. A member of a consumer group owns a partition until it has reported that
   it revoked the partition, or has been silent for a session.
3. Without faults, a group converges within a session, a rebalance and a little more.

Must not know: how a coordinator keeps its groups, nor what transactions do besides committing offsets.
"""
