"""APIs about configs, client quotas and client telemetry.

1. `core.config` checks all changes to a resource before any of them is stored.
2. Sensitive values are never sent to a client.
"""
