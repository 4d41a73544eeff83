"""The group and transaction coordinators: one state machine for each led partition of a coordinator's topic.

1. A request is handled, and its records are appended and replayed, before the next request begins.
2. A request does not wait until the records of earlier requests are committed.
3. A reply, even to a read, waits until all records that were replayed before it are committed.
4. Records that the log refuses change nothing, and the caller gets the error. After any other failure the state machine
   is discarded, its callers get NOT_COORDINATOR, and a new one is loaded from the log.
5. The package must not know groups or replicas: a state machine is a `machine.CoordinatorMachine`, and a log a
   `partition_log.PartitionLog`. `runtime` must not know transactions, either.
"""
