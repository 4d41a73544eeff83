"""Logs on disk, in the files of Apache Kafka 4.3.1. pykbroker and Kafka can each open the other's log directories.

1. The `.log` files are authoritative. Indexes, producer snapshots and leader epoch files are derived from them; a
   derived file that contradicts the log is rebuilt.
2. Records below the recovery point were fsynced. Damage there takes the partition offline, and no record is dropped.
   Above the recovery point, the log is truncated at the first invalid batch.
3. Only the active segment grows. A sealed segment is an object of another class, which has no append.
4. Batches are stored as producers sent them. The broker overwrites only their offsets and leader epoch, which the CRC
   does not cover, and the fields that a topic config changes.
5. Work is done per batch in plain functions. A function that may wait for the disk is a coroutine, or raises NotCached,
   after which `errors.patiently` awaits the disk and calls it again. The package owns the state that can be rebuilt
   from a log alone. It must not know replication, metadata, requests or connections.
"""
