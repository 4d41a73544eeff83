"""APIs about brokers, features, log directories and supported versions.

1. The response to ApiVersions is computed from the table of handlers and the version ranges of `wire.api`.
"""
