"""The small files of a log directory and how any file there is read: checkpoints, meta.properties, markers.

1. A file that can be rebuilt is read with doubt and written atomically; refusal to write it is a warning.
2. An OSError says in `refusals` whether the disk failed or only the call did.
Must not know: segments, batches beyond their bytes, logs.
"""
