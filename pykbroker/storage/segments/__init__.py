"""Segments and their indexes: the `.log`, `.index`, `.timeindex` and `.txnindex` files of one log.

1. Only an active segment grows. A sealed segment never changes; it is another type, so that it cannot.
2. Indexes are derived: an index that does not match its segment is rebuilt from it.
3. Descriptors are borrowed: a sealed segment opens its file when it is read and may be closed at any await.
Must not know: recovery points, producers, retention, other logs.
"""
