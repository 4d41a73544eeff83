"""Messages that are neither requests nor responses: records of logs and snapshots, and payloads inside other messages.

1. Every struct here keeps unknown tagged fields, and writes them back.
2. A module has the messages of one subject, such as topics or share groups.
3. `framing` encodes the type and version of a record; `metadata` and `group` are catalogues by type.
"""
