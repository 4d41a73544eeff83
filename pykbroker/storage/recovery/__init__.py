"""The opening of a log after a stop or a crash, where each of its files is trusted, checked or rebuilt.

1. Records below the recovery point were fsynced. Damage there takes the partition offline and removes nothing.
2. Above the recovery point the first invalid batch ends the log. The rest is cut off and never served.
3. Producer snapshots and leader epochs are trusted only as far as the log confirms them.
The package must not know appends, clients, or the directory that holds the log.
"""
