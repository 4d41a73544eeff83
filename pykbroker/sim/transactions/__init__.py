"""Transactions in the simulation: producers that fence each other, copiers, and readers of committed data.

1. A transaction is void until its EndTxn with commit is sent, undecided until that is answered, and then committed. A
   reader of committed data never gets a void transaction, and gets a committed one as a whole.
2. Two producers take turns at one transactional id, and a fenced one finds out by being refused. Requests on its old
   connection may still be in flight when it continues on another one.
3. A producer of version 1 whose EndTxn was not answered begins a new epoch, since nothing else distinguishes its late
   request from one about the next transaction. A producer of version 2 may repeat it: every transaction has an epoch.
4. A copier commits the offsets of its input in the transaction that holds the copies, so that each record of its input
   is in its output once.

Must not know: how a coordinator keeps its transactions.
"""
