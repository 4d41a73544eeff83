"""Brokers, features, log directories and the versions that are served.

1. ApiVersions is computed from the table of handlers and the ranges of `wire.api`.
"""
