"""APIs about the quorum of the metadata log.

1. DescribeQuorum describes a quorum of one voter, as Kafka does. Requests to change the voters are refused.
2. Fetch and FetchSnapshot serve the metadata log to observers, on the listeners of controllers.
3. Vote, BeginQuorumEpoch, EndQuorumEpoch and UpdateRaftVoter are messages between voters. With one voter they are
   neither served nor advertised.
"""
