"""APIs about topics and about the partitions, leaders and replicas of topics.

1. The response to a change is sent once all unfenced brokers have applied the change, or after a second.
2. A topic that the principal may not describe is never revealed to exist.
"""
