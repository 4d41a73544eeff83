"""The one shell around the pure machines of groups and transactions: a machine for each partition of their topic.

1. A call is handled, its records are appended and replayed, all before the next call; nothing is awaited in between.
2. Nobody waits for another's commit: calls that come meanwhile are handled on top of what is appended.
3. Each reply, also a read's, waits until all that was replayed before it is committed.
4. What is too large is refused before anything happens. After any other failure the machine is thrown away, its callers
   get NOT_COORDINATOR, and another one is loaded from the log.
5. Nothing here knows a group or a transaction, an API or a replica: the log is a `journal.Journal`.
"""
