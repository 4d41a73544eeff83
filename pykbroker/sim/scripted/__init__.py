"""A scripted cluster of several nodes, for tests of clients: it answers as Kafka's nodes do, on any `world.net.Net`.

1. The nodes share one state without replication: topics, leaders, coordinators. A test changes it, as elections would.
2. A node may answer Metadata from an older state, lose its connections, stop, or give a scripted answer to a request.
3. A node handles the requests of a connection one after the other, as Kafka does.
4. Groups and transactions are decided by this broker's state machines. A group or a transactional id may get another
   coordinator, which loads the state from its log.

The package must not know the clients that it tests.
"""
