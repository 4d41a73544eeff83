"""APIs about the quorum of the metadata log.

1. DescribeQuorum describes a quorum of one voter, as Kafka does. Requests to change the voters are refused.
"""
