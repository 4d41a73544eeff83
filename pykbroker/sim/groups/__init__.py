"""Simulated consumer groups: members that join, commit, pause and leave, and the checks of their history.

1. The committed offset of a partition is a register. There must be an order of all commits, including late and
   unanswered commits, in which every OffsetFetch response has the newest commit. Each commit has unique metadata (its
   mark), by which a response identifies the commit.
2. A partition has one owner in a generation. A member of a consumer group owns a partition until it has reported the
   revocation of the partition, or until its session has expired.
3. Without faults, a group converges within the sum of session timeout and rebalance timeout, and a short time more.

The package must not know how a coordinator decides about its groups, or stores them.
"""
