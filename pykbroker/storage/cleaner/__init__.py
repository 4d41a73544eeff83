"""Log compaction: which log is cleaned next, and how a pass over it is carried out.

1. The decision of what stays is pure and runs in another process (`core.compaction`); files are moved here alone.
2. A cleaned segment takes the place of its originals in steps that survive a crash between any two (`log.swap`).
3. Reading and writing keep to the configured pace.
Must not know: why a topic is compacted, clients.
"""
