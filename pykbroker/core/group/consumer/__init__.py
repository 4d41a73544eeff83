"""Consumer groups (KIP-848): each member sends heartbeats, and the broker assigns the partitions.

1. `heartbeat` handles the only request of members. After a change, `plan` computes a new group epoch and target
   assignments; `reconcile` moves a member towards its target.
2. Only replayed records change a group. A heartbeat applies its records to a `draft`, so that its later decisions see
   its earlier ones.
3. A partition has one owner. It is assigned to another member once its owner no longer reports it or is removed.
4. A group changes its type with its members (`upgrade`, `downgrade`). While one member uses the consumer protocol,
   members that use the classic protocol are served here too (`classic_join`, `classic_member`). An empty group is
   replaced.
"""
