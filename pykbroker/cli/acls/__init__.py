"""The commands of `pykbroker acls`: what the users of any Kafka cluster may do.

1. A command is about one resource, and prints ACLs as sentences.
2. A check decides as Kafka's StandardAuthorizer does, from the ACLs that the cluster describes.
"""
