"""Simulated transactions: producers that fence each other, exactly-once copiers, and read_committed consumers.

1. A transaction is void until its EndTxn with commit is sent, then undecided until EndTxn is answered, then committed.
   A read_committed consumer never gets a record of a void transaction, and gets all records of a committed transaction.
2. Two producers alternately take over one transactional id. The fenced producer notices this by an error. Its old
   requests may still be in flight when it continues on another connection.
3. With transaction version 1, a producer whose EndTxn was not answered begins a new epoch, because the late request
   could otherwise end the next transaction. With transaction version 2 the producer may repeat EndTxn, since every
   transaction has its own epoch.
4. A copier commits the offsets of its input in the transaction that has the copies. Each record of its input must be in
   its output exactly once.

The package must not know how a coordinator decides about its transactions, or stores them.
"""
