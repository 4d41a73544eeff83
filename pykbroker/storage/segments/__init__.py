"""Segments and their indexes: the `.log`, `.index`, `.timeindex` and `.txnindex` files of one log.

1. Only an active segment grows. A sealed segment never changes; it has another type, so that nothing can append to it.
2. Indexes are derived data: an index that contradicts its segment is rebuilt from it.
3. Descriptors are borrowed: a sealed segment opens its file when it is read, and any await may close it.
Must not know: recovery points, producers, retention, other logs.
"""
