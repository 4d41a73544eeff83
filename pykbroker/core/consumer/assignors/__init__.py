"""The client-side assignors of classic consumer groups: the group's leader divides partitions among the members.

1. `range` and `roundrobin` return exactly the assignment that Kafka's own assignors return.
2. `sticky` and `cooperative-sticky` balance first, keep as many partitions as possible with their owners second, and
   match racks third (KIP-54, KIP-429, KIP-881).
3. The same input always gives the same assignment. No assignor depends on the order of members or topics.
"""
