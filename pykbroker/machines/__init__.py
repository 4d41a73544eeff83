"""The shell of every machine of `core`: it makes decisions durable, and answers once they are committed.

1. Requests, notices, ticks and replays of one machine happen one after the other. Work that fits in one time slice is
   done before `ask` returns. Longer work continues in further slices, and later requests queue behind it.
2. Records are appended, then replayed; a reply is given once everything that was replayed before it is committed.
3. Committing belongs to the log: an fsync, a high watermark, or both. The shell only waits for it.
4. After a failure with unknown consequences, the machine is given up: every caller gets one error, and the owner of the
   shell loads the machine again or ends the broker.
5. The package must not know groups, transactions or metadata: a machine is `core.outcome.Machine`, a log `MachineLog`.
"""
