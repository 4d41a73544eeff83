"""A directory of `log.dirs`: its lock, its logs, their checkpoints, and the partitions found in it at start.

1. One process uses a directory at a time. A Java broker uses the same lock file, `.lock`.
2. `.kafka_cleanshutdown` is written last, after every log was closed and every checkpoint written.
3. A directory that is not certainly a topic's partition is left alone or renamed.
The package must not know topics' metadata, leadership or clients.
"""
