"""Transactions in the simulation: producers that fence each other, copiers, and readers of what is committed.

1. A transaction is void until its EndTxn with commit has been sent, undecided until that is answered, and then
   committed. What was void is never shown to a reader of committed data, what is committed is shown as a whole.
2. Two producers take turns at one transactional id, and whoever has lost it finds out by being refused. What waits on
   an old connection is still on its way when its producer goes on with a new one.
3. A producer of version 1 whose EndTxn was not answered begins a new epoch, as nothing else tells its late request
   from one about the next transaction. One of version 2 may ask again: every transaction has an epoch of its own.
4. A copier commits the offsets of what it has read with the transaction that holds what it made of it, so that
   each record of its input is in its output once.
Must not know: how a coordinator keeps its transactions.
"""
