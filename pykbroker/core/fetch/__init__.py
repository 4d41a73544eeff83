"""Incremental fetch sessions (KIP-227): what a session holds, and which sessions a broker keeps.

1. A session answers with the partitions that changed since its last answer.
2. The cache is bounded in sessions and in partitions; what does not fit is served without a session.
"""
