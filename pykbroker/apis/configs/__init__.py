"""Configs, client quotas and client telemetry.

1. A request is checked as a whole by `core.config` before any part of it is stored.
2. Secret values are never sent.
"""
