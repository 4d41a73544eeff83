"""The processes of brokers, for those that start and end them: `pykbroker cluster`, the test fixture and the tools.

1. A process announces its addresses in a message on a pipe, as soon as clients can connect. Nobody parses the sentence
   that `pykbroker start` prints.
2. The end of the pipe is the end of the process, so that a thread or an event loop can wait for either.
3. The package must not know an event loop or the broker: its callers have threads or trio, and other programs.
"""
