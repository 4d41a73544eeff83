"""The log directories of partitions: the choice of a directory, opening and creating logs, and moves (KIP-113).

1. A partition has one log. A crash during a move leaves exactly one log that is valid.
2. A log that a checkpoint lists is never created again as an empty one, unless a `Repair` fetches it anew.
3. A partition whose log cannot be opened is offline until a retry or a repair.
4. The package must not know `Replicas` or the rooms `leading`, `following` and `care`.
"""
