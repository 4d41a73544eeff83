"""Requests and responses in every version, one module per API. Nested structs have Kafka's own names.

1. Attributes are Kafka's field names in snake case. A field name that the class uses itself gets an underscore
   (`key_`).
2. A nested struct whose fields differ between request and response is named after its message.
3. A struct that means the same in two messages of one protocol, such as that of share groups, is declared once. If
   Kafka changes one of them, `tools.compare_schemas` finds the difference, and each gets its own.
4. The docstring of a module lists the changes of each version.
"""
