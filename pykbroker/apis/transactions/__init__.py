"""APIs about transactions and idempotent producers.

1. A transactional id is authorized before any data about it is returned.
2. `core.txn` makes the decisions. A response is sent after its decision is committed.
"""
