"""The commands about the files of logs: `pykbroker dump-log` and `pykbroker log-dirs`.

1. No file is changed.
2. A damaged file is described up to its damage, and the exit code is 1.
"""
