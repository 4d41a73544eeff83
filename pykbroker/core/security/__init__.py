"""The identity of a client and its rights: sessions, ACLs (`acl`), log-ins (`sasl`), certificates and secrets.

1. An authorizer gets a session, an operation, a resource type and a name, and returns whether the operation is allowed.
2. Every API that is served has an entry in `rights.RIGHTS`.
3. A session has the facts about a connection that decisions depend on. The package must not know the messages of
   requests.
4. A secret has the type `Secret`. It is compared in constant time, and is in no repr.
"""
