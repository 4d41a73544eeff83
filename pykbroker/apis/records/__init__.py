"""Produce, Fetch, and the questions about offsets and producers of a log.

1. What fails for one partition is an error code in its place; the others go through.
2. Appends happen in the order of requests, before anything is awaited.
"""
