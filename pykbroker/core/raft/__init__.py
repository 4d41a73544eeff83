"""Decisions about the metadata log and the nodes that fetch it. This quorum has one voter, the leader.

1. A node that is no voter is an observer. Its fetch offset never moves the high watermark.
2. A fetch that does not continue the leader's log is answered with the offset at which both logs agree, or with the
   snapshot that the observer must read first.

Sources: KIP-595, KIP-630, KIP-836, and the KafkaRaftClient of Apache Kafka 4.3.1.
"""
