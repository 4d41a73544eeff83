"""A directory of `log.dirs`: its lock, its logs, their checkpoints, and what a start finds in it.

1. One process uses a directory at a time; `.lock` is Java's lock too.
2. `.kafka_cleanshutdown` is written last, and only after every log was closed and every checkpoint written.
3. What is not surely a topic's partition is left alone, or kept under another name; nothing is guessed.
Must not know: topics' metadata, leadership, clients.
"""
