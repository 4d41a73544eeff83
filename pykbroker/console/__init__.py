"""The console for operators, in the broker's process: metrics for Prometheus, and health checks.

1. The console reads an `Observer` and nothing else of the broker, and holds no state.
2. The package is imported after the broker has started to serve, off the event loop, and only if it is enabled (extra
   `console`).
3. A scrape runs on the event loop in time slices: a thread would keep Python's lock from the loop for 5 ms at a time.
4. The number of series is bounded by `pykbroker.metrics.partitions.max`, and metrics count what exceeds it.
5. The console never ends a broker: its failures are only logged.
"""
