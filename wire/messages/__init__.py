"""Requests and responses: one module per API, every version; the nested structs have Kafka's own names.

1. Attributes are Kafka's field names in snake case; a name that the class needs itself gets an underscore (`key_`).
2. A nested struct whose shape differs between request and response is named after its message.
3. The docstring of a module lists what each version added (+) and removed (-).
"""
