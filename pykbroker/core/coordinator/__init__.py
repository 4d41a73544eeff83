"""Keys, records and topics that group and transaction coordinators have in common.

1. Java's hash of a key selects the partition of the coordinator's topic.
2. Records are decided here; the shell that appends them frames them.
"""
