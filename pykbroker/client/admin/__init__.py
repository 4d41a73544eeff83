"""An admin client, and what commands and fixtures inspect and change with it: topics, groups, users and ACLs.

1. A function imports its own messages, because a command uses one or two of them.
2. The error of a whole request is raised as ApiError, that of an item is in the result or raised.
"""
