"""Who may do what: Kafka's operations and resources, the table of what each API needs, and the seam of an authorizer.

1. An authorizer is asked with a principal, an operation, a resource type and a name, and answers yes or no.
2. Every API that is served has its entry in `permissions.PERMISSIONS`.
3. Nothing here knows connections or requests.
"""
