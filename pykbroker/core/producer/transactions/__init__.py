"""Transactions of a producer: its state, the requests to the coordinators, and the sequence numbers (KIP-98, 447, 890).

`manager.TransactionManager` is the machine. The application calls `init`, `begin`, `send_offsets`, `commit` and
`abort`, and waits for the returned `CallResult`. The owner moves the requests, under its lock:

    manager.update_features(epoch, levels)        # the finalized features, after each new connection
    abort = manager.batch_abort                   # batches that the sender must fail now, before it drains others
    call = manager.requests.next_call(now_ms, has_incomplete=...)
    # look up call.coordinator, send call.request() with at most call.version_max, then one of these three:
    manager.requests.received(call, response, now_ms)      # true: forget the coordinator, and look it up again
    manager.requests.disconnected(call, now_ms)            # the request was lost
    manager.requests.refused(call, error)            # the look-up was refused, or no common version exists

`manager.sequences` is the sequencer of accumulator and sender. Each append checks `manager.is_open`, and calls
`check_send` for the error if it is false. An append that opens a batch calls `add_partition`, an append that fails
calls `send_failed`. A Produce request has at most the version `manager.produce_version_max`.

1. Legal calls and transitions are tables (`state.py`). A call that is illegal in a state changes nothing.
2. One request of the transaction protocol is in flight at a time. InitProducerId goes before added partitions and
   offsets, and EndTxn goes last, once no batch is incomplete, not even an expired one that is still in flight.
3. Up to transaction version 1, a partition is added to the transaction before its first batch is sent. From version 2
   on, the partition's leader adds it. The version is read from the finalized features between two transactions.
4. The answer to a request is a reaction (`reactions.py`): done, retry, look up the coordinator again, abortable error,
   or fatal error. An abortable error fails all calls but `abort`; a fatal error fails all calls.
5. No sequence number is used twice within an epoch, except after the broker has deleted the producer's records. After
   a batch that failed for good, the transaction can only be aborted, and the next one has another epoch: EndTxn of
   version 2 returns it, otherwise InitProducerId bumps it after EndTxn (KIP-360).
"""
