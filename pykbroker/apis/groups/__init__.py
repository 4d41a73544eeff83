"""Consumer groups: members, offsets, descriptions.

1. What a member may do is checked here; what it is told is decided in `core.group`.
2. A group is asked of the one coordinator that hosts it.
"""
