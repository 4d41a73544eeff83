"""One directory of `log.dirs`: its lock, its logs, their checkpoints, and the partitions found in it at start.

1. One process uses a directory at a time. The lock file `.lock` is the same as Apache Kafka's.
2. `.kafka_cleanshutdown` is written last, after every log was closed and every checkpoint written.
3. A subdirectory is deleted only if it certainly belongs to a deleted partition. Any other unknown subdirectory is left
   alone, or renamed with the suffix `-stray`.
"""
