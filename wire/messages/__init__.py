"""Requests and responses in every version, one module per API. Nested structs have Kafka's own names.

1. Attributes are Kafka's field names in snake case. A field name that the class uses itself gets an underscore
   (`key_`).
2. A nested struct whose fields differ between request and response is named after its message.
3. The docstring of a module lists the changes of each version.
"""
