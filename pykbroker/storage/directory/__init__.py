"""A directory of `log.dirs`: its lock, its logs, their checkpoints, and the partitions that a start finds in it.

1. One process uses a directory at a time; `.lock` is the lock of a Java broker, too.
2. `.kafka_cleanshutdown` is written last, and only after every log was closed and every checkpoint written.
3. A directory that is not certainly a topic's partition is left alone or renamed; nothing is guessed.
Must not know: topics' metadata, leadership, clients.
"""
