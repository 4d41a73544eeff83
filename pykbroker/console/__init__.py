"""What operators look at while a broker runs, in the same process: metrics for Prometheus.

1. It reads `BrokerStatistics` and nothing else of the broker; it holds no state of its own.
2. It is imported after the broker serves, away from the loop, and only where it was asked for: extra `console`.
3. It never ends a broker: what goes wrong here is a line in the log.
"""
