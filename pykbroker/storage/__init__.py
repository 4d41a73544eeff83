"""Logs on disk: the very files of Apache Kafka 4.3.1, so that either broker starts on the other's directory.

1. The `.log` is the truth. Indexes, producer snapshots and epoch files are disposable: what does not hold is found
   and rebuilt from the log.
2. What is below the recovery point was synced: damage there stops the partition and drops nothing. Above it a batch
   that does not hold is a torn tail; it is cut and never served.
3. Only an active segment grows. A sealed one never changes; being another type it cannot.
4. Batches are stored as they came: offsets and epoch are patched outside the CRC, the rest only where a config says so.
5. Work is per batch and plain; what may wait for the disk is a coroutine, or raises NotCached for `errors.patiently`.
Owns what a log alone can rebuild. Must not know: high watermarks' peers, topics' metadata, requests, connections.
"""
