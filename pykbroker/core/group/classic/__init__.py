"""Classic groups: clients that agree among themselves, through the coordinator, on who reads what.

1. `state` has the tables: which state may follow which, and what each answers.
2. A rebalance has two halves: all members join (`join`, `rebalance`), then all fetch what the leader gave (`sync`).
3. The record of a generation is written when its leader has assigned; `stored` turns a group into it and back.
"""
