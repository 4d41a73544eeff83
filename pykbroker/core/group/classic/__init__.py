"""Classic groups: the leader of the group computes the assignment, and the coordinator distributes it.

1. `state` has the tables of transitions and of each state's error codes.
2. A rebalance has two halves: all members join (`join`, `rebalance`), then all fetch the leader's assignment (`sync`).
3. A generation is stored when its leader has sent the assignment. `stored` converts groups to records and back.
"""
