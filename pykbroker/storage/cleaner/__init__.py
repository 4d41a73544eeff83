"""Log compaction: the choice of the next log, and the rewriting of its segments.

1. A worker process decides which records are kept (`core.compaction`). Only this package reads, writes and renames
   files.
2. A compacted segment replaces the segments that it was made from. A crash at any point of the replacement loses no
   record (`log.swap`).
3. Reads and writes are limited by `log.cleaner.io.max.bytes.per.second`.
"""
