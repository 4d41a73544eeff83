"""Incremental fetch sessions (KIP-227), and the bounded cache of them.

1. A session's response has only the partitions that changed since its last response.
2. The cache is bounded in sessions and in partitions. A client that does not fit is served without a session.
"""
