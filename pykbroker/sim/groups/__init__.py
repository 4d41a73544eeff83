"""Consumer groups in the simulation: members that come, work, fall silent and go, and who judges what they were told.

1. A committed offset is a register: whatever is late or unanswered, there must be one order of all commits in which
   each answer of OffsetFetch is the newest. Each commit bears a mark of its own, so that an answer tells its commit.
2. In a generation a partition has one owner. A member of a consumer group owns what it was given until it has said
   that it gives it back, or has been silent for a session.
3. When it is calm, a group converges within a session, a rebalance and a little more.
Must not know: how a coordinator keeps its groups, nor what transactions do but commit offsets.
"""
