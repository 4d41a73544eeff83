"""The small files of a log directory, and reading of any file in it: checkpoints, meta.properties, partition.metadata.

1. A file that can be rebuilt is validated when it is read and replaced atomically. A disk that refuses to write it
   causes a warning only.
2. `refusals` sorts every OSError: either the disk failed, or only one call did.
Must not know: segments, batches beyond their bytes, logs.
"""
