"""Segments and their indexes: the `.log`, `.index`, `.timeindex` and `.txnindex` files of one log.

1. Only an active segment grows. A sealed segment never changes; it has another type, so that nothing can append to it.
2. Indexes are derived data: an index that contradicts its segment is rebuilt from the segment.
3. A sealed segment opens its file when it is read. Any await may close the file, to free its descriptor.
The package must not know recovery points, producers, retention or other logs.
"""
