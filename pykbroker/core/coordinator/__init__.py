"""What group and transaction coordinators have in common: their keys, their records, and their topics.

1. A key belongs to one partition of its topic, found by Java's hash of the key.
2. A record is decided here and framed by the shell that appends it.
"""
