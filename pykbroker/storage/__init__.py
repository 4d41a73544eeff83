"""Logs on disk, in the files of Apache Kafka 4.3.1: pykbroker and Kafka start on each other's directories.

1. The `.log` files are the truth. Indexes, producer snapshots and leader epoch files are disposable: a file that
   contradicts the log is rebuilt.
2. Records below the recovery point were fsynced: damage there takes the partition offline, and nothing is dropped.
   Above the recovery point the first invalid batch is a torn tail: the log is truncated there.
3. Only an active segment grows. A sealed segment has another type, so that nothing can append to it.
4. Batches are stored as they came: the broker overwrites their offsets and leader epoch, which the CRC does not cover,
   and other fields only where a config demands it.
5. Work is done per batch in plain functions. A function that may wait for the disk is a coroutine, or raises NotCached
   for `errors.patiently`. The package owns the state that a log alone can rebuild. It must not know replication,
   metadata, requests, connections.
"""
