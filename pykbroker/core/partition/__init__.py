"""A partition from its leader's point of view: leadership, high watermark, and the conditions for acks=all.

1. The high watermark never decreases while this broker leads, and never exceeds the log end offset.
2. Only this package knows of replicas and of the ISR. A partition has one replica today; followers will be added here
   without a change for callers.
3. With `pykbroker.flush.before.ack`, no record is committed or acknowledged before it is durable.
4. The package must not know logs, disks or waiting. Offsets are arguments.
"""
