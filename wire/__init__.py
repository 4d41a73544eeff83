"""The Kafka protocol as data: the encoding of every message, in both directions and in every version.

1. A message is declared once, as a class for all versions (`declare`), which are those of its API (`api`). The codec of
   one version is compiled from the declaration on first use (`compile`). Only headers, markers, producer snapshots and
   runs of committed offsets are also decoded by hand.
2. A decoder checks every length against the bytes that are left, and limits the number of array elements in a message.
   It raises only DecodeError. An encoder raises EncodeError for an invalid value, which is a bug of the caller.
3. Unknown tagged fields of requests and responses are skipped. Messages in a log (`stored`) keep them and write them
   back, because a newer broker may need them.
4. Codecs do not copy, decompress or validate record batches; `records` does that.
5. Importing this package imports no message; `apis` imports the module of an API on first use.
6. The package must not know sockets, files, clocks, threads, or a broker.
"""
