"""The group coordinator as a pure state machine: one `GroupMachine` for each partition of `__consumer_offsets`.

1. Requests and times are the input, records and replies are the output. `replay.REPLAY` is the table of what each
   record changes.
2. A classic group's members and generation are either stored or part of a rebalance in progress. A rebalance exists in
   memory only; a crash during one returns the group to its previous generation, as in Kafka.
3. A JoinGroup or SyncGroup may wait for its reply. It is answered exactly once, by its token, even if its member is
   removed.
4. Deadlines are keys in `core.timers`. `machine.DUE` maps each kind of deadline to its function.
5. The package must not know authorizers: the APIs authorize commits. Topics come from a metadata image.
6. A member's data is bounded by its record, since the log refuses a record that is too large. `classic.join` bounds the
   data that is kept before a record exists, and `core.name_pattern` bounds regular expressions.

Source: KIP-62, KIP-134, KIP-345, KIP-394, KIP-429, KIP-447, KIP-814, KIP-848, KIP-1251; record formats of Kafka's group
coordinator.
"""
