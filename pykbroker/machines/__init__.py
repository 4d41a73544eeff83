"""The shell around a state machine of `core`: it writes the machine's records to a log and replies once they commit.

1. Requests, notices, ticks and replays of one state machine run one after the other. Work that fits in one time slice
   of the event loop is done before `ask` returns. Longer work continues in further slices, and later requests queue
   behind it.
2. Records are appended, then replayed. A reply is sent once all records that were replayed before it are committed.
3. The log decides when a record is committed: after an fsync, when the high watermark passes it, or both. The shell
   only waits for it.
4. After a failure with unknown consequences, the shell discards the state machine, and every caller gets an error. The
   owner of the shell then loads the state machine again or stops the broker.
5. The package must not know groups, transactions, metadata or requests: a state machine is `core.outcome.Machine`, a
   log `MachineLog`.
"""
