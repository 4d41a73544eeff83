"""The console for operators, in the broker's process: metrics for Prometheus, and health checks.

1. The console reads the broker only through an `Observer`, and has no state.
2. The package is imported only if the console is enabled (extra `console`), in a thread and after the broker has
   started.
3. A scrape runs in time slices of the event loop. A thread would hold Python's global lock for 5 ms at a time. Only the
   counters that the system has of the process are read in a thread.
4. `pykbroker.metrics.partitions.max` limits the number of series. Two metrics count the partitions and the committed
   offsets beyond the limit.
5. A metric that Kafka's JMX exporter or kafka_exporter also has gets their name, and no second one of our own.
6. Failures of the console are logged, and never end the broker.
"""
