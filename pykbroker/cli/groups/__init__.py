"""The commands of `pykbroker groups`: list, describe, reset and delete the groups of any Kafka cluster.

1. The new offsets of a reset are decided in `reset_plan`, without a connection.
2. A command asks the cluster by the Kafka protocol, as the client of any Kafka broker.
"""
