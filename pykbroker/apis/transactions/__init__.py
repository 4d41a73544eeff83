"""Transactions and idempotent producers.

1. A transactional id is authorized before anything about it is said.
2. Decisions are made in `core.txn`, and answered once they are committed.
"""
