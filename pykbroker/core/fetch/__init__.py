"""Incremental fetch sessions (KIP-227), and their cache.

1. A session's response has only the partitions that changed since its last response.
2. The cache has limits for sessions and for partitions. A client that would exceed them is served without a session.
"""
