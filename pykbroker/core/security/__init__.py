"""Authorization: Kafka's operations and resource types, the permissions of each API, and the authorizer's interface.

1. An authorizer gets a principal, an operation, a resource type and a name, and answers yes or no.
2. Every API that is served has an entry in `permissions.PERMISSIONS`.
3. Nothing here knows connections or requests.
"""
