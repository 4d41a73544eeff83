"""Messages that are not requests or responses: records of logs and snapshots, and payloads inside other messages.

1. Every struct here keeps unknown tagged fields, and writes them back.
2. A module holds one noun and the messages that change or describe it.
3. `framing` encodes the type and version of a record; `metadata` and `group` are catalogues by type.
"""
