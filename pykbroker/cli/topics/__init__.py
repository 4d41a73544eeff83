"""The commands of `pykbroker topics`, for the topics of any Kafka cluster.

1. The new replicas of `topics reassign` are decided in `reassign_plan`, without a connection.
2. A command asks the cluster by the Kafka protocol, as the client of any Kafka broker.
"""
