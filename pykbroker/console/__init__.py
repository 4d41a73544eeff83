"""The console for operators, in the broker's process: metrics for Prometheus.

1. It reads `BrokerStatistics` and nothing else of the broker, and holds no state.
2. It is imported after the broker serves, off the event loop, and only if it is enabled (extra `console`).
3. It never ends a broker: its failures are lines in the log.
"""
