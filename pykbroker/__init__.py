"""A Kafka broker in Python on trio, for unmodified Kafka clients.

1. `core` makes the decisions: pure, synchronous, without a clock. The rest is a thin shell around it.
2. A broker reaches the machine only through `world`. `broker` builds the parts of a broker and runs their tasks.
3. Imports go downwards only, in the order of the floors in ARCHITECTURE.md. The lowest floor is `wire`, which knows the
   protocol and nothing of this package.
"""
