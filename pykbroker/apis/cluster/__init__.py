"""APIs about brokers, features, log directories and supported versions.

1. ApiVersions is computed from the table of handlers and the ranges of `wire.api`.
"""
