"""Sessions and authorization: operations, resource types, the permission of each API, and the interface of authorizers.

1. An authorizer gets a session, an operation, a resource type and a name, and answers yes or no.
2. Every API that is served has an entry in `permissions.PERMISSIONS`.
3. A session has the facts about a connection that decisions depend on. Nothing here knows sockets or requests.
"""
