"""The transaction coordinator as a pure machine, one for each partition of `__transaction_state` (KIP-98, KIP-890).

1. The record of a Prepare state decides a transaction. Markers and the Complete record only carry the decision out;
   after a restart the coordinator resumes there from the log.
2. A producer is fenced by its epoch. From transaction version 2 on every transaction has its own epoch, so that a late
   request cannot be taken for part of the next transaction.
3. A request sees the effects of earlier requests about the same transactional id at once; its reply waits until their
   records are committed.
4. Times are ms since 1970, as in the log: a transaction timeout keeps running across a restart of the broker.
This package must not know how markers are sent, versions of requests, or authorization.
"""
