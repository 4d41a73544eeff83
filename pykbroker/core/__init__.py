"""What Kafka decides, as pure functions and machines: read this package to learn Kafka.

1. Nothing here waits, reads a clock, draws a random number, opens a file or logs: all of that comes in as an argument.
2. What shall happen goes out as a value: records to append, replies to deliver. The caller acts.
3. One method of a machine changes what must survive, `replay`, and recovery uses the same one.
4. It knows the messages and records of `wire`; it must not know connections, logs on disk, trio or any other package.
"""
