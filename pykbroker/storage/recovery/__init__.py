"""Opening a log after a stop or a crash: trusting, checking or rebuilding each of its files.

1. Records below the recovery point were fsynced: damage there takes the partition offline and removes nothing.
2. Above the recovery point the first invalid batch ends the log; the rest is cut off and never served.
3. Producer snapshots and leader epochs are trusted only as far as the log confirms them.
Must not know: appends, clients, the directory that holds the log.
"""
