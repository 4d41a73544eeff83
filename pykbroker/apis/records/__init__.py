"""Produce, Fetch, and the APIs about the offsets and producers of a log.

1. A partition that fails gets an error code in its own result. Other partitions succeed.
2. Appends happen in the order of a connection's requests. Work that waits before an append holds the connection.
"""
