"""The client-side assignors of classic consumer groups: the group's leader divides partitions among the members.

1. `range` and `roundrobin` return exactly the assignment that Kafka's own assignors return.
2. `sticky` and `cooperative-sticky` balance first, match racks second, and keep as many partitions as possible with
   their owners third (KIP-54, KIP-429, KIP-881). Groups of up to 40 members get the optimum, larger ones are near it.
3. The same input always gives the same assignment. No assignor depends on the order of members or topics.
"""
