"""Segments and their indexes: the `.log`, `.index`, `.timeindex` and `.txnindex` files of one log.

1. Only the active segment grows. A sealed segment never changes, and is an object of another class, which has no
   append.
2. Indexes are derived data: an index that contradicts its segment is rebuilt from the segment.
3. A sealed segment opens its file when it is read. Its file may be closed at any await, to free a descriptor.
4. The package must not know recovery or appends.
"""
