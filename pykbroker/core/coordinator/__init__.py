"""Keys, records and topics that group and transaction coordinators share.

1. Java's hash of a key selects the partition of the coordinator's topic.
2. The coordinators decide records. Another package converts them to batches and appends them.
"""
