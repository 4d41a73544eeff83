"""The quorum of the metadata log.

1. One voter is described as Kafka describes one; changes of voters are refused.
"""
