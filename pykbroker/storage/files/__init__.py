"""The small files of a log directory (checkpoints, meta.properties, partition.metadata), and reads of any of its files.

1. A file that can be rebuilt is validated when it is read and replaced atomically. A disk that refuses to write it
   causes a warning only.
2. `refusals` sorts every OSError: either the disk failed, or only one call did.
The package must not know segments, logs, or batches beyond their bytes.
"""
