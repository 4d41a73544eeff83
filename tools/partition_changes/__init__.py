"""A recorder of the changes that Kafka's controller makes to partitions."""
