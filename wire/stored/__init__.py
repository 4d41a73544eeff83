"""Messages that do not travel as requests: records of logs and snapshots, and what clients put inside other messages.

1. Every struct here keeps the tagged fields that it does not know, and writes them back.
2. A module holds one noun: the messages that change or describe it.
3. `framing` says how a log names the type and version of a record; `metadata` and `group` are catalogues by type.
"""
