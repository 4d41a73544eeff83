"""The log of one partition: append, read, flush, delete and truncate.

1. A batch is validated before anything changes; an append that raises has changed nothing.
2. Batches are stored as they came: the broker overwrites their offsets and leader epoch, which the CRC does not cover,
   and other fields only where a config demands it.
3. Work on the event loop never waits for the disk: it raises NotCached or is a coroutine.
4. `Log` composes an appender, a reader, a flusher and a shrinker. These parts share one `LogState` and know no `Log`.
The package must not know other logs, leadership, or high watermarks of other brokers.
"""
