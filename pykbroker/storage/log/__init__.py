"""The log of one partition: append, read, flush, delete and truncate.

1. A batch is validated before the log changes. An append that raises an error has changed nothing.
2. Batches are stored as producers sent them. The broker overwrites only their offsets and leader epoch, which the CRC
   does not cover, and the fields that a topic config changes.
3. A synchronous read never waits for the disk: it raises NotCached instead. A function that waits is a coroutine.
4. `Log` composes an appender, a reader, a flusher and a shrinker. These parts share one `LogState` and do not refer to
   the `Log`.
5. The package must not know the directory of all logs.
"""
