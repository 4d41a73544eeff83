"""The pure half of the consumer: decisions about its partitions.

1. Nothing here waits, locks or reads a clock. The faces of the consumer do.
2. Semantics are those of Kafka 4.3.1's own clients.
"""
