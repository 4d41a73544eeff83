"""Consumer groups (KIP-848), whose members are assigned partitions by the broker.

1. What stands in a log is kept, so that such a group is listed, commits and resumes; nobody can join one here.
2. An empty one gives way to a classic group of its name, as in Kafka.
"""
