"""The transaction coordinator as a pure machine: one for each partition of `__transaction_state` (KIP-98, KIP-890).

1. A transaction is decided by the record of its Prepare state. What follows, markers and the Complete record, only
   carries that out, and a start takes it up where the log left it.
2. A producer is fenced by its epoch. From transaction version 2 on every transaction has an epoch of its own, so that
   nothing that is late can belong to the next one.
3. Requests about one transactional id see each other's effects at once; their replies wait for the commit.
4. Times are ms since 1970, as the log keeps them: a timeout outlives the broker that began to count it.
Must not know: how markers travel, versions of requests, who may ask.
"""
