"""The commands that describe or alter a running cluster: brokers, configs, features, quotas, transactions and others.

1. A file has one command or one group of commands, under its name.
2. A command asks the cluster by the Kafka protocol, as the client of any Kafka broker.
"""
