"""One partition's log: append, read, flush, delete and truncate.

1. A batch is validated before anything changes; an append that raises has changed nothing.
2. Batches are stored as they came: offsets and epoch are patched outside the CRC, the rest only where a config says so.
3. Work on the loop never waits for the disk: it raises NotCached or is a coroutine.
Must not know: other logs, leadership, high watermarks of peers.
"""
