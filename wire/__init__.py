"""The Kafka protocol as data: what the bytes of every message mean, in both directions and in every version.

1. A message is declared once, as a class for all versions (`declare`); the codec of one version is compiled from the
   declaration on first use (`compile`). Nothing else knows the layout of a message.
2. A decoder trusts nothing: every length is checked against the bytes that are left, array elements count against a
   budget, and DecodeError is all that gets out. Wrong values to encode are EncodeError, the developer's.
3. Tagged fields that nobody here knows are skipped in requests and responses, whose sender is answered and not copied;
   messages that live in a log (`stored`) keep them and write them back, because a newer broker wrote them on purpose.
4. Record batches pass through: not copied, not opened, not checked (that is `records`).
5. Importing this package loads no message; `api` finds the module of an API when it is first asked for.

It must not know sockets, files, clocks, threads, or how a broker behaves.
"""
