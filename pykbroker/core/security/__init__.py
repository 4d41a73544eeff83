"""Sessions and authorization: operations, resource types, the permission of each API, and the interface of authorizers.

1. An authorizer gets a session, an operation, a resource type and a name, and returns whether the operation is allowed.
2. Every API that is served has an entry in `permissions.PERMISSIONS`.
3. A session has the facts about a connection that decisions depend on. The package must not know
   requests.
"""
