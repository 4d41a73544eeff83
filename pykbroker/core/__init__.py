"""Kafka's decisions as pure functions and state machines. To learn what Kafka does, read this package.

1. Nothing here waits, reads a clock, draws random numbers, opens a file or logs. Such input arrives as an argument.
2. Effects are return values: records to append and replies to deliver. The caller carries them out.
3. Only the `replay` method of a state machine changes durable state, and recovery calls the same method.
4. The package may use the messages and records of `wire`. It must not know trio, files, or another package.
"""
