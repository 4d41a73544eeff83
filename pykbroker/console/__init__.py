"""The console for operators, in the broker's process: metrics for Prometheus.

1. The console reads `BrokerStatistics` and nothing else of the broker, and holds no state.
2. The package is imported after the broker has started to serve, off the event loop, and only if it is enabled (extra
   `console`).
3. The console never ends a broker: its failures are only logged.
"""
