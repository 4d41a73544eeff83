"""The tasks that look after partitions without a request: repairs, full disks, checkpoints, retention, and the scrub.

1. A task that looks at all partitions does so in portions, and other tasks run in between.
2. `core/replication/repair` and `core/replication/unwritable` decide about each step of a replica that cannot be served
   or written. The steps are taken here, and reported to the controller.
3. The package must not know `leading`.
"""
