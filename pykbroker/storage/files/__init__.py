"""The small files of a log directory (checkpoints, meta.properties, partition.metadata), and reads of any of its files.

1. A file that can be rebuilt is validated when it is read, and replaced atomically. If it cannot be written, a warning
   is logged and the broker continues.
2. `refusals` classifies every OSError: either the whole disk failed, or only one system call.
3. The package must not know segments or logs.
"""
