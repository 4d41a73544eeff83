"""One partition as its leader sees it: what consumers may read, what acks=all waits for, what may be acknowledged.

1. The high watermark never decreases while this broker leads, and never exceeds the log end offset.
2. Only this package knows of replicas and of the ISR. A partition has one replica today; the offsets of followers will
   enter here, and no caller will change.
3. With `pykbroker.flush.before.ack`, no record is committed or acknowledged before it is durable.
4. It must not know logs, disks or waiting: offsets come in as arguments.
"""
