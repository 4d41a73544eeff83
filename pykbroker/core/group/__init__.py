"""The group coordinator, pure: one `GroupMachine` for each partition of `__consumer_offsets`.

1. Requests and times go in, records and replies come out; `stored.REPLAY` is the table of what each record changes.
2. A classic group's members and generation are what was last stored, or what is in the making: a rebalance lives in
   memory alone, and a crash in the middle of one goes back to the generation before it, as in Kafka.
3. A parked caller (JoinGroup, SyncGroup) is answered exactly once, by its token, also when its member goes.
4. Deadlines are keys in `core.timers`, and `machine.DUE` is the table of what each kind of them means.
5. Nothing here knows authorizers (who may commit what is the API's question), logs or clocks. Topics are an image.
6. What a member says is bounded by the record that holds it, which the log refuses if it is too large; what is kept
   before there is one has bounds of its own in `classic.join`, and patterns theirs in `core.name_pattern`.

Source: KIP-62, KIP-134, KIP-345, KIP-394, KIP-429, KIP-447, KIP-814, KIP-848, KIP-1251; record formats of Kafka's group
coordinator.
"""
