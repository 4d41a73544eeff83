"""A Kafka broker in Python on trio, for unmodified Kafka clients.

1. What is decided is decided in `core`: pure, synchronous, without a clock. The rest is a thin shell around it.
2. Only `world` touches the machine; `broker` builds everything and owns the one nursery.
3. Imports go downwards only: cli and testing, broker, apis, server and replica and quorum, storage and client, core and
   world, and `wire`, which knows the protocol and nothing of this package.
"""
