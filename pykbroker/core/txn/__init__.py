"""The transaction coordinator as a state machine, one for each partition of `__transaction_state` (KIP-98, KIP-890).

1. A transaction is decided once its Prepare record is committed. Markers and the Complete record only carry the
   decision out. After a restart the coordinator continues with them from the log.
2. A producer is fenced by its epoch. From transaction version 2 on every transaction has its own epoch, so that a late
   request cannot be taken for part of the next transaction.
3. A request sees the effects of earlier requests about the same transactional id at once. Its reply waits until their
   records are committed.
4. Times are ms since 1970, as in the log: a transaction timeout continues to run while the broker restarts.
5. The package must not know authorizers. Others send the markers.
"""
