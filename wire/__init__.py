"""The Kafka protocol as data: the encoding of every message, in both directions and in every version.

1. A message is declared once, as a class for all versions (`declare`). The codec of one version is compiled from the
   declaration on first use (`compile`). No other code knows the layout of a message.
2. A decoder trusts nothing: every length is checked against the bytes that are left, array elements count against a
   budget, and DecodeError is its only exception. An invalid value to encode raises EncodeError, a defect of the caller.
3. Unknown tagged fields of requests and responses are skipped. Messages in a log (`stored`) keep them and write them
   back, because a newer broker wrote them on purpose.
4. Record batches are neither copied, decompressed nor checked here; `records` does that.
5. Importing this package loads no message; `api` imports the module of an API on first use.
6. The package must not know sockets, files, clocks, threads, or the behaviour of a broker.
"""
