"""The recovery of a log at start. Each of its files is trusted, verified or rebuilt.

1. Records below the recovery point were fsynced. Damage there takes the partition offline and removes nothing.
2. Above the recovery point, the log is truncated at the first invalid batch.
3. Producer snapshots and leader epochs are used only as far as the log confirms them.
4. The package must not know appends, or the directory of all logs.
"""
