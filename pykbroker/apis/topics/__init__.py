"""APIs about topics and about the partitions, leaders and replicas of topics.

1. The response to a change is sent after this broker has applied the change.
2. A topic that the principal may not describe is never revealed to exist.
"""
