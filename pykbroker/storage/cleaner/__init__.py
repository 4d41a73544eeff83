"""Log compaction: the choice of the log that is compacted next, and one pass over it.

1. A pure machine in another process decides which records stay (`core.compaction`). Only this package moves files.
2. A compacted segment replaces its sources in steps that survive a crash between any two (`log.swap`).
3. Reads and writes keep to the configured rate.
The package must not know clients, or why a topic is compacted.
"""
