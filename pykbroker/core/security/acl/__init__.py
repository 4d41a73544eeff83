"""The authorizer of ACLs: ACLs, filters, an index of them, and Kafka's decisions.

1. A decision depends on the ACLs, the super users, the principal and the address of the client, and on nothing else.
2. A decision is remembered until an ACL changes.
"""
