"""Opening a log after a stop or a crash: what is trusted, what is checked, what is rebuilt.

1. Batches below the recovery point were synced: damage there stops the partition and removes nothing.
2. Above the recovery point the first batch that does not hold ends the log; the rest is cut and never served.
3. Producer snapshots and leader epochs are believed only as far as the log itself confirms them.
Must not know: appends, clients, the directory that holds the log.
"""
