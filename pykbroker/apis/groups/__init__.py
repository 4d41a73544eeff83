"""APIs about groups: members, offsets, descriptions.

1. A handler authorizes the client; `core.group` decides the result.
2. A request about a group goes to the coordinator shard that hosts the group.
"""
