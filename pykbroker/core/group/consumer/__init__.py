"""Consumer groups (KIP-848): each member heartbeats on its own, and the broker assigns the partitions.

1. `heartbeat` serves the members' only request. `plan` computes a new epoch and targets after a change; `reconcile`
   moves a member towards its target.
2. Only replayed records change a group. A heartbeat applies its records to a `draft`, so that its later decisions see
   its earlier ones.
3. A partition has one owner. It is assigned to another member once its owner no longer reports it or is removed.
4. A group changes its type with its members (`upgrade`, `downgrade`). Members that use the classic protocol are served
   here (`classic_join`, `classic_member`) while another member uses the consumer protocol. An empty group is replaced.
"""
